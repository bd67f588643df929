package batchtest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// secrets is the fake of Secrets Manager, values by their names: the operations that package batch asks for.
type secrets map[string]string

func (all secrets) answer(w http.ResponseWriter, operation string, body []byte) {
	var in struct {
		Name, SecretId, SecretString, ClientRequestToken string
		ForceDeleteWithoutRecovery                       bool
		Tags                                             []struct{ Key, Value string }
	}
	if err := decode(body, &in); err != nil {
		fail(w, http.StatusBadRequest, "ValidationException", err.Error())
		return
	}
	name := in.Name + in.SecretId
	value, there := all[name]
	switch {
	case operation == "CreateSecret" && there:
		fail(w, http.StatusBadRequest, "ResourceExistsException", "The operation failed because the secret "+name+" already exists.")
		return
	case operation != "CreateSecret" && !there:
		fail(w, http.StatusBadRequest, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
		return
	case operation == "CreateSecret", operation == "PutSecretValue":
		all[name] = in.SecretString
	case operation == "DeleteSecret":
		delete(all, name)
	}
	out := object{"Name": name, "ARN": "arn:aws:secretsmanager:" + Region + ":" + Account + ":secret:" + name}
	if operation == "GetSecretValue" {
		out["SecretString"] = value
	}
	_ = json.NewEncoder(w).Encode(out) // the client sees a short answer
}

// secretsOperation is what a request asks of Secrets Manager; "": it is none.
func secretsOperation(r *http.Request) string {
	operation, _ := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "secretsmanager.")
	return operation
}

// Secrets is how many secrets there are.
func (s *Server) Secrets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets)
}

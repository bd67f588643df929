// Package secrettest is a fake of Amazon's Secrets Manager: the operations that package secret asks for.
package secrettest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// Secrets are values by their names. A caller answers one request at a time.
type Secrets map[string]string

// Answer answers an operation, such as CreateSecret.
func (all Secrets) Answer(w http.ResponseWriter, operation string, body []byte) {
	var in struct {
		Name, SecretId, SecretString, ClientRequestToken string
		ForceDeleteWithoutRecovery                       bool
		Tags                                             []struct{ Key, Value string }
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		fail(w, "ValidationException", err.Error())
		return
	}
	name := in.Name + in.SecretId
	value, there := all[name]
	switch {
	case operation == "CreateSecret" && there:
		fail(w, "ResourceExistsException", "The operation failed because the secret "+name+" already exists.")
		return
	case operation != "CreateSecret" && !there:
		fail(w, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
		return
	case operation == "CreateSecret", operation == "PutSecretValue":
		all[name] = in.SecretString
	case operation == "DeleteSecret":
		delete(all, name)
	}
	out := map[string]string{"Name": name, "ARN": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:" + name}
	if operation == "GetSecretValue" {
		out["SecretString"] = value
	}
	_ = json.NewEncoder(w).Encode(out) // the client sees a short answer
}

// Operation is what a request asks of Secrets Manager; "": it is none.
func Operation(r *http.Request) string {
	operation, is := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "secretsmanager.")
	if !is {
		return ""
	}
	return operation
}

func fail(w http.ResponseWriter, code, message string) {
	w.Header().Set("X-Amzn-ErrorType", code)
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": code, "message": message}) // the client sees a short answer
}

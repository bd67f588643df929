package batchtest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// answerLogs is the fake of CloudWatch Logs: the last lines that a container printed; containers have their folders in dir.
func answerLogs(w http.ResponseWriter, body []byte, dir string, denied bool) {
	var in struct {
		LogGroupName, LogStreamName string
		Limit                       int
		StartFromHead               bool
	}
	err := decode(body, &in)
	text, readErr := os.ReadFile(filepath.Join(dir, filepath.Base(in.LogStreamName), "log"))
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, "InvalidParameterException", err.Error())
		return
	case denied:
		fail(w, http.StatusBadRequest, "AccessDeniedException", "not authorized to perform: logs:GetLogEvents")
		return
	case readErr != nil:
		fail(w, http.StatusBadRequest, "ResourceNotFoundException", "The specified log stream does not exist.")
		return
	}
	events := []object{}
	for line := range strings.Lines(string(text)) {
		events = append(events, object{"message": strings.TrimSuffix(line, "\n"), "timestamp": 1})
	}
	_ = json.NewEncoder(w).Encode(object{"events": events[max(0, len(events)-in.Limit):]}) // the client sees a short answer
}

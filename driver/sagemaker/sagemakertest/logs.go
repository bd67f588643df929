package sagemakertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// answerLogs is the fake of CloudWatch Logs: a stream for each container, such as drover-x-1/algo-1-1 for the first start of the first.
func (s *Server) answerLogs(w http.ResponseWriter, operation string, body []byte) {
	var in struct {
		LogGroupName, LogStreamName, LogStreamNamePrefix string
		Limit                                            int
		StartFromHead                                    bool
	}
	type object = map[string]any
	if err := decode(body, &in); err != nil || !slices.Contains([]string{"/aws/sagemaker/TrainingJobs", "/aws/sagemaker/ProcessingJobs"}, in.LogGroupName) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(object{"__type": "InvalidParameterException", "message": in.LogGroupName}) // the client sees a short answer
		return
	}
	if operation == "DescribeLogStreams" {
		files, _ := filepath.Glob(filepath.Join(s.dir, "*", "log")) // the pattern is right
		streams := []object{}
		for _, file := range files {
			parts := strings.Split(filepath.Base(filepath.Dir(file)), ".") // NAME.START.HOST
			host := 0
			_, _ = fmt.Sscan(parts[2], &host) // the fake's own
			if name := fmt.Sprintf("%s/algo-%d-%s", parts[0], host+1, parts[1]); strings.HasPrefix(name, in.LogStreamNamePrefix) {
				streams = append(streams, object{"logStreamName": name, "creationTime": len(streams)})
			}
		}
		_ = json.NewEncoder(w).Encode(object{"logStreams": streams}) // likewise
		return
	}
	name, container, _ := strings.Cut(in.LogStreamName, "/algo-")
	host, start := 0, 0
	_, _ = fmt.Sscanf(container, "%d-%d", &host, &start) // the fake's own
	text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("%s.%d.%d", name, start, host-1), "log"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(object{"__type": "ResourceNotFoundException", "message": "The specified log stream does not exist."}) // likewise
		return
	}
	events := []object{}
	for line := range strings.Lines(string(text)) {
		events = append(events, object{"message": strings.TrimSuffix(line, "\n"), "timestamp": 1})
	}
	_ = json.NewEncoder(w).Encode(object{"events": events[max(0, len(events)-in.Limit):]}) // likewise
}

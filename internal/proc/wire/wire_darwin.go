package wire

import (
	"encoding/json"
	"os"
)

// SendStarted reports the program's start.
func SendStarted(agent *os.File, r Report) error { return json.NewEncoder(agent).Encode(r) }

func passCredentials(int) error { return nil }

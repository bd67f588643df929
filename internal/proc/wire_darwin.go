package proc

import (
	"encoding/json"
	"os"
)

func sayStarted(agent *os.File, r report) error { return json.NewEncoder(agent).Encode(r) }

func askCreds(int) error { return nil }

package wire

import (
	"encoding/json"
	"os"
)

func SayStarted(agent *os.File, r Report) error { return json.NewEncoder(agent).Encode(r) }

func askCreds(int) error { return nil }

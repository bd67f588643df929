package google

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/drover-run/drover/cloud"
)

// File is a credential in the form in which it is handed over to an agent on a machine
// without a credential of its own: a token, never what a token is made from. It is secret.
type File struct {
	Token   string    `json:"token"`
	Until   time.Time `json:"until"`
	Comment string    `json:"comment"`
}

// Bytes is what FileSource reads.
func (f File) Bytes() ([]byte, error) {
	text, err := json.Marshal(f)
	return append(text, '\n'), err
}

// FileSource reads tokens from a file that may be replaced by a newer one.
type FileSource struct {
	Path  string
	Clock cloud.Clock
}

// Token is the newest token. If that has ended, the error is a *cloud.Away: the file may be replaced.
func (s FileSource) Token(context.Context) (Token, error) {
	f, err := s.Read()
	if err != nil {
		return Token{}, fmt.Errorf("read the credential: %w", err)
	}
	if !s.Clock.Now().Before(f.Until) {
		return Token{}, &cloud.Away{Doing: "read the credential", Err: fmt.Errorf("it expired at %s", f.Until.UTC().Format(time.RFC3339))}
	}
	return Token{Value: f.Token, Expires: f.Until}, nil
}

// Read reads the file.
func (s FileSource) Read() (f File, err error) {
	text, err := os.ReadFile(s.Path)
	if err != nil {
		return f, err
	}
	if json.Unmarshal(text, &f) != nil || f.Token == "" || f.Until.IsZero() { // an error of JSON would quote it
		return f, fmt.Errorf("read %s: it holds no credential", s.Path)
	}
	return f, nil
}

package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Say adds a note, a line of JSON, to an agent's file, in one write; of one that is
// torn nothing is believed, and it takes no other with it. One that is lost (a full
// disk) leaves an agent that looks as if it had died before it spoke, which is safe
// to believe.
func Say(w io.Writer, note any) error {
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	// The first line's end is that of a note that was torn.
	_, err = w.Write(append(append([]byte{'\n'}, text...), '\n'))
	return err
}

// SayIn is Say at the end of a file, which it makes if it is not there. Several may
// do so at once.
func SayIn(path string, note any) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = Say(f, note)
	return errors.Join(err, f.Close()) // over a network what was written is there when it is closed
}

// maxNotes bounds what is read of an agent's notes, in bytes: a few are a few hundred.
const maxNotes = 64 << 10

// Hear reads notes, in order. A line that is torn or strange says nothing.
func Hear[N any](r io.Reader) (notes []N, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxNotes))
	for line := range bytes.Lines(text) {
		var n N
		if json.Unmarshal(line, &n) == nil {
			notes = append(notes, n)
		}
	}
	return notes, err
}

// HearIn is Hear of a file. What could be read will do.
func HearIn[N any](path string) []N {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	notes, _ := Hear[N](f)
	return notes
}

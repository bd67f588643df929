package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Say appends a note, a line of JSON, to an agent's file, in one write. A truncated note is
// ignored; the notes after it are still read. If a note is lost (a full disk), the agent looks
// as if it had died before it wrote the note, which is a safe assumption.
func Say(w io.Writer, note any) error {
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	// The first newline ends a note that was truncated.
	_, err = w.Write(append(append([]byte{'\n'}, text...), '\n'))
	return err
}

// SayIn is Say at the end of a file, which it makes if it does not exist. Several processes may
// do so at once.
func SayIn(path string, note any) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = Say(f, note)
	return errors.Join(err, f.Close()) // over a network, a write is complete once the file is closed
}

// maxNotes bounds what is read of an agent's notes, in bytes: a few are a few hundred.
const maxNotes = 64 << 10

// Hear reads notes, in order. It ignores a line that is truncated or not understood.
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

// HearIn is Hear of a file. It gives the notes that could be read.
func HearIn[N any](path string) []N {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	notes, _ := Hear[N](f)
	return notes
}

package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func TestAPictureShowsWhatTheTerminalShows(t *testing.T) {
	screen, err := record(t.TempDir(), []string{`printf 'half\r\033[32mgreen <&>\033[0m plain\n'`, "echo two"})
	if err != nil {
		t.Fatal(err)
	}
	picture := draw(screen, "a <title>")
	var texts []string
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture)
		}
		if words, ok := token.(xml.CharData); ok && strings.TrimSpace(string(words)) != "" {
			texts = append(texts, string(words))
		}
	}
	got := strings.Join(texts, "|")
	want := `a <title>|$ printf 'half\r\033[32mgreen <&>\033[0m plain\n'|green <&>| plain|$ echo two|two`
	if got != want {
		t.Errorf("the picture says\n%s\nand the terminal shows\n%s", got, want)
	}
	if !strings.Contains(picture, `fill="`+palette[2]+`">green`) {
		t.Errorf("green is not green:\n%s", picture)
	}
}

func TestACommandThatFailsIsNotDrawn(t *testing.T) {
	if _, err := record(t.TempDir(), []string{"exit 3"}); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

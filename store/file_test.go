package store_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

func TestAFileIsCreatedWholeAndOnce(t *testing.T) {
	for _, row := range []struct {
		name    string
		answers []answer
		held    string
		asked   string
	}{
		{"at once", nil, "mine", "create"},
		{"somebody was first", []answer{{before: "other"}}, "other", "create"},
		{"unclear, not done", []answer{unclear}, "mine", "create create"},
		{"unclear, done", []answer{applied}, "mine", "create create"},
		{"busy", []answer{busy, busy}, "mine", "create create create"},
		{"full", []answer{full}, "", "create"},
	} {
		s, b := over(row.answers...)
		body := strings.NewReader("mine")
		if _, err := body.Seek(2, io.SeekStart); err != nil { // it is written from its beginning all the same
			t.Fatal(err)
		}
		err := s.CreateFile(t.Context(), "output/model.tar.gz", body)
		if asked := strings.Join(b.asked, " "); asked != row.asked {
			t.Errorf("%s: asked %s", row.name, asked)
		}
		if row.held == "" {
			if fault.KindOf(err) != fault.Full || fault.Hint(err) == "" {
				t.Errorf("%s: %v", row.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if held, err := s.Get(t.Context(), "output/model.tar.gz"); err != nil || string(held) != row.held {
			t.Errorf("%s: it holds %q (%v)", row.name, held, err)
		}
	}
}

var errUnread = errors.New("disk gone")

type unreadable struct{ *bytes.Reader }

func (unreadable) Read([]byte) (int, error)         { return 0, errUnread }
func (unreadable) WriteTo(io.Writer) (int64, error) { return 0, errUnread }

type unseekable struct{ *bytes.Reader }

func (unseekable) Seek(int64, int) (int64, error) { return 0, errUnread }

func TestAFileThatCannotBeReadIsNotCreated(t *testing.T) {
	for name, body := range map[string]io.ReadSeeker{"read": unreadable{bytes.NewReader(nil)}, "sought": unseekable{bytes.NewReader(nil)}} {
		s, _ := over()
		if err := s.CreateFile(t.Context(), "output/x", body); !errors.Is(err, errUnread) {
			t.Errorf("one that cannot be %s: %v", name, err)
		}
		if _, err := s.Get(t.Context(), "output/x"); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("one that cannot be %s is there: %v", name, err)
		}
	}
}

package proc

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/spawner/frame"
	"github.com/drover-run/drover/internal/proc/wire"
)

func TestCommandsAndEventsCrossTheWire(t *testing.T) {
	t.Parallel()
	var down []byte
	sent := []frame.FrameCommand{
		{ID: 1<<64 - 1, Path: "/bin/caf\xe9", Args: []string{"a", "", "c d"}, Env: []string{"A=1", "B="}, Stdin: []byte("x\x00y"), Timeout: time.Hour},
		{ID: 0, Path: "./a"},
		{ID: 2, Path: "/b", Stdin: []byte{}},
	}
	for i := range sent {
		down = frame.AppendCommand(down, &sent[i])
	}
	for cutAt := range down { // no part of a frame is taken for one
		rest := down[:cutAt]
		for n := 0; ; n++ {
			kind, body, next, ok := frame.NextFrame(rest)
			if !ok {
				break
			}
			rest = next
			j, ok := frame.NewJob(body)
			if !ok || kind != frame.FrameStart {
				t.Fatalf("of %d bytes: frame %d is of kind %d, %+v", cutAt, n, kind, j)
			}
		}
	}
	var got []frame.FrameCommand
	for rest := down; len(rest) > 0; {
		_, body, next, ok := frame.NextFrame(rest)
		if !ok {
			t.Fatal("a frame is missing")
		}
		rest = next
		j, ok := frame.NewJob(body)
		if !ok {
			t.Fatal("no command")
		}
		got = append(got, frame.FrameCommand{ID: j.ID, Path: unzero(t, j.Path)[0], Args: unzero(t, j.Args...), Env: unzero(t, j.Env...), Stdin: j.Stdin, Timeout: j.Timeout})
	}
	sent[1].Args, sent[2].Args = []string{"./a"}, []string{"/b"}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}

	at := time.Unix(1_700_000_000, 123)
	end := frame.CommandEnd{ID: 7, Status: 9 << 8, TimedOut: true, Stopped: true, Left: 2, User: 1, System: 2, MaxRSS: 3, Began: at, Ended: at.Add(time.Second), Output: [2]int64{5, 6}}
	up := frame.AppendBegan(nil, 7, 42, at)
	up = end.AppendTo(up)
	up = frame.AppendUnfit(up, &frame.Job{ID: 8, Path: []byte("/no/such\x00")}, syscall.ENOENT, at)
	up = frame.AppendID(up, frame.FrameUnstarted, 9)
	want := []Spawned{
		{ID: 7, Kind: SpawnedBegan, Began: at},
		{ID: 7, Kind: SpawnedEnded, Began: at, Ended: at.Add(time.Second), Output: [2]int64{5, 6}, Stopped: true,
			Exit: Exit{Code: 9, TimedOut: true, Left: 2, User: 1, System: 2, MaxRSS: 3}},
		{ID: 8, Kind: SpawnedEnded, Began: at, Ended: at, Exit: Exit{Code: -1}},
		{ID: 9, Kind: SpawnedUnstarted},
	}
	var told []Spawned
	for len(up) > 0 {
		kind, body, next, ok := frame.NextFrame(up)
		s, fine := parseSpawned(&wire.Order{}, kind, body)
		if !ok || !fine {
			t.Fatalf("after %d: %d, %v", len(told), kind, body)
		}
		if s.ID == 8 {
			if s.Err == nil || !strings.Contains(s.Err.Error(), "/no/such") {
				t.Errorf("got %v", s.Err)
			}
			s.Err = nil
		}
		up, told = next, append(told, s)
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func unzero(t *testing.T, texts ...[]byte) (list []string) {
	t.Helper()
	for _, text := range texts {
		if len(text) == 0 || bytes.IndexByte(text, 0) != len(text)-1 {
			t.Fatalf("%q does not end in its only zero byte", text)
		}
		list = append(list, string(text[:len(text)-1]))
	}
	return list
}

func FuzzFrames(f *testing.F) {
	e := frame.FrameCommand{ID: 1, Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=1"}, Stdin: []byte("in")}
	f.Add(frame.AppendCommand(nil, &e))
	f.Add((&frame.CommandEnd{ID: 2}).AppendTo(frame.AppendBegan(nil, 2, 3, time.Unix(0, 0))))
	f.Add([]byte{1, 0, 0, 0, frame.FrameStart})
	f.Fuzz(func(t *testing.T, b []byte) {
		taken := 0
		for rest := b; ; {
			kind, body, next, ok := frame.NextFrame(rest)
			if !ok {
				break
			}
			taken += frame.FrameHead + len(body.B)
			if len(rest)-len(next) != frame.FrameHead+len(body.B) {
				t.Fatalf("a frame of %d bytes took %d", frame.FrameHead+len(body.B), len(rest)-len(next))
			}
			rest = next
			if j, ok := frame.NewJob(body); ok {
				total := len(j.Path) + len(j.Stdin)
				for _, text := range append(j.Args, j.Env...) {
					total += len(text)
				}
				if total > len(body.B) {
					t.Fatalf("a frame of %d bytes held %d", len(body.B), total)
				}
			}
			_, _ = parseSpawned(&wire.Order{}, kind, body)
		}
		if taken > len(b) {
			t.Fatalf("%d bytes taken of %d", taken, len(b))
		}
	})
}

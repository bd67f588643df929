package top

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/job"
)

// topState is all that drover top knows. It is a value: what happens makes
// another one of it (key, updateJobs, updateJob, updateLog), and lines draws it. Neither
// asks a clock, a store or a terminal; topScreen does, and hands it in.
type topState struct {
	plot.Paper
	now     time.Time
	project string

	jobs   []drover.Status // live ones first, of alike the newest first
	picked string          // the job under the marker, by its id
	loaded bool            // jobs were seen

	open   string // the job that fills the screen; "": the list does
	job    topJob
	node   int      // the rank under the marker
	log    []string // as topLine made them
	back   int      // how many lines the log is scrolled back
	search *regexp.Regexp

	mode  topMode
	typed string // of the search, so far
	note  string // one line of ours, until the next key
	fault string // why the newest look brought nothing
}

// topJob is one look at a job.
type topJob struct {
	status drover.Status
	series []plot.Series
	usage  []plot.NodeUsage
	events []job.Event
	many   *topMap // of a map
}

// topLine makes a program's line one that moves no cursor. Of a bar that was
// drawn over and over on one line the last state is left.
func topLine(text string) string {
	const most = 4096 // no screen is wider
	text = strings.TrimRight(text, "\r\n")
	text = text[strings.LastIndexByte(text, '\r')+1:]
	if len(text) > most {
		text = text[:most]
	}
	text = string(screen.Escape([]byte(text), false))
	return strings.ReplaceAll(strings.ReplaceAll(text, "\t", "    "), "\n", " ")
}

// topMode says what the keys act on.
type topMode int

const (
	topLooking topMode = iota
	topSearching
	topAsking // whether to cancel
	topHelping
)

// topAsk is what a key asks of the world outside.
type topAsk int

const (
	askNothing topAsk = iota
	askQuit
	askLook   // another job or node is shown: bring what belongs to it
	askCancel // the job under the marker
	askPause  // Ctrl-Z
)

// chosenJob is the job that enter and c mean.
func (s topState) chosenJob() (drover.Status, bool) {
	if s.open != "" {
		return s.job.status, s.job.status.ID == s.open
	}
	i := s.markerIndex()
	if i < 0 {
		return drover.Status{}, false
	}
	return s.jobs[i], true
}

// markerIndex is where the marker is in the list, -1 when there is none.
func (s topState) markerIndex() int {
	i := slices.IndexFunc(s.jobs, func(j drover.Status) bool { return j.ID == s.picked })
	if i < 0 && len(s.jobs) > 0 {
		return 0
	}
	return i
}

// pressKey is what a pressed key does. name is the key's, such as "up" or "ctrl+c";
// text is what it types, if anything.
func (s topState) pressKey(name, text string) (topState, topAsk) {
	if name == "ctrl+c" {
		return s, askQuit
	}
	if name == "ctrl+z" {
		return s, askPause
	}
	s.note = ""
	switch s.mode {
	case topSearching:
		return s.editSearch(name, text), askNothing
	case topAsking:
		s.mode = topLooking
		if name == "y" {
			s.note = "cancelling ..."
			return s, askCancel
		}
		return s, askNothing
	case topHelping:
		s.mode = topLooking
		if name == "q" {
			return s, askQuit
		}
		return s, askNothing
	}
	return s.pressViewKey(name)
}

func (s topState) pressViewKey(name string) (topState, topAsk) {
	switch name {
	case "q":
		return s, askQuit
	case "?", "h":
		s.mode = topHelping
	case "up", "k":
		return s.moveMarker(-1)
	case "down", "j":
		return s.moveMarker(1)
	case "enter", "right", "l":
		if i := s.markerIndex(); s.open == "" && i >= 0 {
			return s.openJob(s.jobs[i]), askLook
		}
	case "esc", "left", "backspace":
		switch {
		case s.search != nil:
			s.search, s.back = nil, 0
		case s.open != "":
			s.picked, s.open, s.job, s.log, s.back = s.open, "", topJob{}, nil, 0
			return s, askLook
		}
	case "/":
		if s.open != "" {
			s.mode, s.typed = topSearching, ""
		}
	case "c":
		if t, ok := s.chosenJob(); ok && t.State.Settled() {
			s.note = t.ID + " has ended: there is nothing to cancel"
		} else if ok {
			s.mode = topAsking
		}
	case "pgup", "ctrl+b":
		s.back += max(s.Height/2, 1)
	case "pgdown", "ctrl+f", "space":
		s.back -= max(s.Height/2, 1)
	case "home", "g":
		s.back = len(s.log)
	case "end", "G", "shift+g":
		s.back = 0
	}
	s.back = min(max(s.back, 0), len(s.foundLines()))
	return s, askNothing
}

// openJob opens a job; what is known of it from the list is shown at once.
func (s topState) openJob(j drover.Status) topState {
	s.open, s.job, s.node, s.log, s.back, s.search = j.ID, topJob{status: j}, 0, nil, 0, nil
	return s
}

func (s topState) moveMarker(by int) (topState, topAsk) {
	if s.open == "" {
		if len(s.jobs) > 0 {
			s.picked = s.jobs[min(max(s.markerIndex()+by, 0), len(s.jobs)-1)].ID
		}
		return s, askNothing
	}
	if s.job.many != nil {
		return s, askNothing
	}
	node := min(max(s.node+by, 0), max(len(s.job.status.Nodes)-1, 0))
	if node == s.node {
		return s, askNothing
	}
	s.node, s.log, s.back = node, nil, 0
	return s, askLook
}

// editSearch edits the search.
func (s topState) editSearch(name, text string) topState {
	switch name {
	case "enter":
		s.mode, s.back, s.search = topLooking, 0, nil
		if s.typed == "" {
			return s
		}
		re, err := regexp.Compile("(?i)" + s.typed)
		if err != nil { // half of an expression is searched for as text
			re = regexp.MustCompile("(?i)" + regexp.QuoteMeta(s.typed))
		}
		s.search = re
	case "esc":
		s.mode = topLooking
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(s.typed)
		s.typed = s.typed[:len(s.typed)-n]
	case "ctrl+u":
		s.typed = ""
	default:
		const most = 200
		if len(s.typed)+len(text) <= most {
			s.typed += terminal.PlainText(text)
		}
	}
	return s
}

// foundLines are the lines of the log that the search has left.
func (s topState) foundLines() []string {
	if s.search == nil {
		return s.log
	}
	var out []string
	for _, l := range s.log {
		if s.search.MatchString(l) {
			out = append(out, l)
		}
	}
	return out
}

// updateJobs takes over a new look at the list.
func (s topState) updateJobs(jobs []drover.Status, err error) topState {
	bad, err := summary.Unreadable(err)
	if err != nil {
		s.fault = err.Error()
		return s
	}
	s.fault, s.loaded = "", true
	if bad != nil {
		s.fault = bad.Error()
	}
	s.jobs = slices.Clone(jobs)
	order := func(j drover.Status) int {
		switch {
		case j.State.Settled():
			return 2
		case j.State == job.Interrupted:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(s.jobs, func(a, b drover.Status) int {
		return cmp.Or(order(a)-order(b), b.Submitted.Compare(a.Submitted))
	})
	if i := s.markerIndex(); i >= 0 {
		s.picked = s.jobs[i].ID
	}
	return s
}

// updateJob takes over a new look at the open job; one at another job comes too late.
func (s topState) updateJob(id string, j topJob, err error) topState {
	switch {
	case id != s.open:
	case err != nil:
		s.fault = err.Error()
	default:
		s.fault, s.job = "", j
	}
	return s
}

// updateLog takes over the newest lines. A view that was scrolled back stays where it is.
func (s topState) updateLog(log []string, added int) topState {
	before := len(s.foundLines())
	s.log = log
	if s.back > 0 {
		if s.search != nil {
			added = len(s.foundLines()) - before
		}
		s.back = min(max(s.back+added, 0), len(s.foundLines()))
	}
	return s
}

// cancelled says how it went.
func (s topState) cancelled(id string, stands bool, err error) topState {
	switch {
	case err != nil:
		s.note = err.Error()
	case stands:
		s.note = id + " is cancelled"
	default:
		s.note = id + " had already ended"
	}
	return s
}

// countLive counts the jobs that agents work on, or should.
func (s topState) countLive() (n int) {
	for _, j := range s.jobs {
		if !j.State.Settled() && j.State != job.Interrupted {
			n++
		}
	}
	return n
}

// bottomLine is the line at the bottom: what may be pressed, or what is asked.
func (s topState) bottomLine() string {
	t, _ := s.chosenJob()
	switch {
	case s.mode == topSearching:
		return "/" + s.typed + "▏"
	case s.mode == topAsking:
		return fmt.Sprintf("cancel %s %s/%s?  y: yes   any other key: no", t.ID, t.Project, t.Task)
	case s.note != "":
		return terminal.PlainText(s.note)
	case s.fault != "":
		return "! " + terminal.PlainText(s.fault)
	case s.open == "":
		return "↑↓ select   enter open   c cancel   ? help   q quit"
	case s.search != nil:
		return "esc whole log   / search anew   ? help   q quit"
	case s.job.many != nil:
		return "/ search   c cancel   esc jobs   ? help   q quit"
	case len(s.job.status.Nodes) > 1:
		return "↑↓ node   / search   c cancel   esc jobs   ? help   q quit"
	}
	return "/ search   c cancel   esc jobs   ? help   q quit"
}

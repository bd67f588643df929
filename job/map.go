package job

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/unit"
)

// ItemState is where an item of a map stands.
type ItemState string

// The states of an item. The first two may still change; of the others a
// success never does, and the rest only when a user asks for another round.
const (
	ItemPending     ItemState = "PENDING"
	ItemLeased      ItemState = "LEASED" // an agent has it
	ItemSucceeded   ItemState = "SUCCEEDED"
	ItemFailed      ItemState = "FAILED"      // as often as it may
	ItemQuarantined ItemState = "QUARANTINED" // it was found running when its agents died
	ItemCancelled   ItemState = "CANCELLED"   // the job was stopped before it had a result
)

// ItemStates are all of them, in the order in which they are shown.
var ItemStates = []ItemState{ItemPending, ItemLeased, ItemSucceeded, ItemFailed, ItemQuarantined, ItemCancelled}

// Items says where the items of a map come from and how each of them is run. It
// is part of a Spec; Verb Map alone has it.
type Items struct {
	// From is what was typed: a file, "-", a folder, a glob or a range such as 1-1000.
	From   string `json:"from,omitempty" yaml:"from,omitempty" jsonschema:"description=Where items come from: a file\\, - for standard input\\, a folder\\, a glob\\, or a range such as 1-1000"`
	Format string `json:"format,omitempty" yaml:"format,omitempty" jsonschema:"enum=lines,enum=csv,enum=jsonl,description=How a file of items is read. Default: by its ending\\, else a line is an item"`
	// Workers is how many agents work on it, each with Slots for items.
	Workers int `json:"workers,omitempty" yaml:"workers,omitempty" jsonschema:"minimum=1,description=How many agents work on the items. Default: 1"`
	// Slots is how many items a worker runs at once; 0: as many as its room allows
	// for what each item asks for, or one for each core.
	Slots int `json:"slots,omitempty" yaml:"slots,omitempty" jsonschema:"minimum=1,description=Items that each worker runs at once. Default: what fits by cpus\\, memory and gpus\\, or one for each core"`
	// ByShell has the command line, with quoted values, run by a shell.
	ByShell bool `json:"shell,omitempty" yaml:"shell,omitempty" jsonschema:"description=The command is a line for the shell\\, with the item's values quoted"`
	// Stdin gives the item's text to the program as its standard input.
	Stdin bool `json:"stdin,omitempty" yaml:"stdin,omitempty" jsonschema:"description=The item comes by standard input too"`
	// Stream has the program stay and ask for items, instead of one process for each.
	Stream bool `json:"stream,omitempty" yaml:"stream,omitempty" jsonschema:"description=The program stays\\, and asks for items over DROVER_SOCK: it loads once what is slow to load"`
	// Fetch has what items name, an address or a path, brought to the machine before
	// they begin, and the next ones while they run.
	Fetch bool `json:"fetch,omitempty" yaml:"fetch,omitempty" jsonschema:"description=Items are addresses (https://\\, http://\\, s3://\\, gs://\\, file://) or paths: each is brought to the machine before it begins\\, and {} is the file"`
	// Out are the names of files and folders that each item must leave, with
	// placeholders; {out} in an argument is where it writes the first.
	Out []string `json:"out,omitempty" yaml:"out,omitempty" jsonschema:"description=Outputs that each item must leave\\, such as thumbs/{.stem}.png\\, written to {out}"`
	// ItemTimeout is the time limit of one try of an item.
	ItemTimeout Duration `json:"item_timeout,omitempty" yaml:"item_timeout,omitempty" jsonschema:"description=Time limit of one try of an item. Default: none"`
	// RetryOn are the failures after which an item is tried again, of those that
	// Retries allows.
	RetryOn RetryOn `json:"retry_on,omitempty" yaml:"retry_on,omitempty" jsonschema:"description=Failures after which an item is tried again: exit statuses and ranges such as 70-79\\, signals\\, OOM\\, timeout. Default: all"`
	// MemoryStep is how many times the memory an item gets after each time that it
	// had too little.
	MemoryStep float64 `json:"memory_step,omitempty" yaml:"memory_step,omitempty" jsonschema:"minimum=0,description=After an item ran out of memory its next try gets so many times as much\\, up to what the machine has. Default: as much"`
	// MaxFails is how many items may fail before the job does, as a number or as
	// percent of all; "": all of them.
	MaxFails string `json:"max_fails,omitempty" yaml:"max_fails,omitempty" jsonschema:"description=Stop when more items than these have failed: a number\\, or percent of all such as 5%"`
}

// Manifest says where a list of items lies in the store: small, whatever is in
// the list.
type Manifest struct {
	Key    string   `json:"key,omitempty"` // of its index; "": a range
	Count  int      `json:"count"`
	Digest string   `json:"digest"`           // of all items in order, 64 hex digits
	Format string   `json:"format,omitempty"` // lines, csv or jsonl
	Fields []string `json:"fields,omitempty"` // names of the items' fields, for CSV and JSON
	From   int64    `json:"from,omitempty"`   // of a range: first, last and step; Step is 0 of others
	To     int64    `json:"to,omitempty"`
	Step   int64    `json:"step,omitempty"`
	// Files is a list as long as this one: of each item the files of the submitting
	// machine that it names, and the blobs that hold them. Nil: none is stored.
	Files *Manifest `json:"files,omitempty"`
	// Places are URLs that open buckets as the submitter opens them: by a server, a
	// profile, or unsigned. What an item says is only which object. Others are opened
	// by their name alone.
	Places []string `json:"places,omitempty"`
}

// Limits of a map.
const (
	maxWorkers = 10_000
	maxSlots   = 10_000
)

// FailLimit is how many of n items may fail before the job does; limited is
// false when all may.
func (i Items) FailLimit(n int) (limit int, limited bool) {
	if i.MaxFails == "" {
		return 0, false
	}
	if percent, ok := strings.CutSuffix(i.MaxFails, "%"); ok {
		p, _ := strconv.ParseFloat(percent, 64)
		return int(p / 100 * float64(n)), true
	}
	limit, _ = strconv.Atoi(i.MaxFails)
	return limit, true
}

// FetchRoom is how many bytes of files that items need a worker has here at once, and
// how many of outputs wait to be stored, by what --disk says.
func FetchRoom(disk Bytes) Bytes {
	if disk > 0 {
		return disk
	}
	return 10 << 30
}

func checkItems(s Spec) error {
	if s.Verb != Map {
		if s.From != "" || s.Workers != 0 || s.Slots != 0 || len(s.Out) > 0 || s.Stream || s.Fetch || len(s.RetryOn) > 0 || s.MemoryStep != 0 {
			return fault.New(fault.Invalid, "Use verb: map.", "check job: items are for maps, not for %s", s.Verb)
		}
		return nil
	}
	switch {
	case s.From == "":
		return fault.New(fault.Invalid, "Try `drover map --from items.txt -- ./work.sh {}`.", "check job: no items given")
	case s.Format != "" && !slices.Contains([]string{"lines", "csv", "jsonl"}, s.Format):
		return fault.New(fault.Invalid, "Use lines, csv or jsonl.", "check job: unknown format %q", s.Format)
	case s.Workers < 1 || s.Workers > maxWorkers:
		return fault.New(fault.Invalid, "Use `--workers 1` to 10000.", "check job: %d workers", s.Workers)
	case s.Slots < 0 || s.Slots > maxSlots:
		return fault.New(fault.Invalid, "Use `-j 1` to 10000.", "check job: %d items at once", s.Slots)
	case s.ItemTimeout < 0:
		return fault.New(fault.Invalid, "Use a length of time such as 90s or 2h.", "check job: time limit %s is negative", s.ItemTimeout)
	case s.Nodes != 1:
		return fault.New(fault.Invalid, "Use `--workers` for more agents.", "check job: a map has workers, not nodes")
	case s.Launcher != Alone:
		return fault.New(fault.Invalid, "Use `drover run --launcher "+string(s.Launcher)+"` with a script or program.", "check job: a map takes no launcher")
	}
	if s.Stream && (s.Stdin || s.ByShell) {
		return fault.New(fault.Invalid, "Leave out `--stdin` and `--shell`.", "check job: a stream program asks for its items over a socket")
	}
	if err := checkRules(s); err != nil {
		return err
	}
	if err := checkMaxFails(s.MaxFails); err != nil {
		return err
	}
	for _, out := range s.Out {
		if err := checkOut(out); err != nil {
			return err
		}
	}
	return nil
}

func checkMaxFails(text string) error {
	if text == "" {
		return nil
	}
	percent, isPercent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(percent, 64)
	whole := v == float64(int(v))
	if err != nil || v < 0 || v > 1e9 || isPercent && v > 100 || !isPercent && !whole {
		return fault.New(fault.Invalid, "Use a number such as 10, or percent such as 5%.", "check job: at most %q items may fail", text)
	}
	return nil
}

// checkOut sees that a declared output is a name below the folder for outputs.
func checkOut(pattern string) error {
	clean := path.Clean(pattern)
	if pattern == "" || path.IsAbs(pattern) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(pattern, 0) {
		return fault.New(fault.Invalid, "Use a name such as thumbs/{.stem}.png.", "check job: output %q is not a name below the folder for outputs", pattern)
	}
	return nil
}

// Tally counts the items of a map by how they ended.
type Tally struct {
	Items       int `json:"items"`
	Succeeded   int `json:"succeeded"`
	Failed      int `json:"failed,omitempty"`
	Quarantined int `json:"quarantined,omitempty"`
	Cancelled   int `json:"cancelled,omitempty"`
}

// Open is how many items have not ended.
func (t Tally) Open() int { return t.Items - t.Succeeded - t.Failed - t.Quarantined - t.Cancelled }

// Add adds o to t.
func (t Tally) Add(o Tally) Tally {
	return Tally{t.Items + o.Items, t.Succeeded + o.Succeeded, t.Failed + o.Failed, t.Quarantined + o.Quarantined, t.Cancelled + o.Cancelled}
}

// String is the tally in words: "1,000 items: 990 succeeded, 10 failed".
func (t Tally) String() string {
	text := fmt.Sprintf("%s items: %s succeeded", unit.Comma(t.Items), unit.Comma(t.Succeeded))
	for _, part := range []struct {
		n    int
		what string
	}{{t.Failed, "failed"}, {t.Quarantined, "quarantined"}, {t.Cancelled, "cancelled"}, {t.Open(), "open"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", unit.Comma(part.n), part.what)
		}
	}
	return text
}

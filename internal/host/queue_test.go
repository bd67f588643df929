package host

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

// machine is what the claims of these tests see, with GPUs "GPU-0" and so on.
func machine(cores int, memory int64, gpus int) view {
	v := view{Cores: firstCores(cores), CPUs: float64(cores), Memory: memory}
	for _, i := range firstCores(gpus) {
		v.GPUs = append(v.GPUs, device{i, "GPU-" + string(rune('0'+i))})
	}
	return v
}

const gb = 1 << 30

// seated makes a line of claims on one machine, in their order. Those with a
// number of holding were granted one after the other, without waiting.
func seated(v view, holding int, wishes ...Wish) line {
	l := line{paused: map[string]bool{}}
	for i, w := range wishes {
		l.entries = append(l.entries, &entry{int64(i + 1), record{Wish: w.withDefaults(), View: v, Part: noPart}})
	}
	for _, e := range l.entries[:holding] {
		v := l.judgeClaim(e)
		if !v.isGranted() {
			now := *e
			now.Now = true
			some := line{entries: l.entries[:e.number], paused: l.paused}
			some.entries[e.number-1] = &now
			v = some.judgeClaim(&now)
			some.entries[e.number-1] = e
		}
		e.Parts, e.Part = v.parts, v.part
	}
	return l
}

func cpus(label string, n float64) Wish { return Wish{Label: label, Each: Amount{CPUs: n}} }

func TestWhatIsWaitedForIsSaid(t *testing.T) {
	t.Parallel()
	two, four := machine(2, 4*gb, 2), machine(4, 8*gb, 4)
	inQueue := func(w Wish, queue string, share Amount) Wish { w.Queue, w.Share = queue, share; return w }
	pair := func(label string, a Amount) Wish { return Wish{Label: label, Group: label, Members: 2, Each: a} }
	urgent := cpus("job u", 2)
	urgent.Priority = 1
	for name, c := range map[string]struct {
		line   line
		paused string
		want   string // of the last one
	}{
		"nothing": {seated(two, 1, cpus("job a", 1), cpus("job b", 1)), "", ""},
		"cores":   {seated(two, 1, cpus("job a", 2), cpus("job b", 2)), "", "waits for 2 cores: job a holds 2 of 2"},
		"part":    {seated(two, 1, cpus("job a", 0.5), cpus("job b", 2)), "", "waits for 2 cores: job a holds 0.5 of 2"},
		"third": {seated(two, 1, cpus("job a", 2), cpus("job b", 2), cpus("job c", 1)), "",
			"waits for 1 core: job a holds 2 of 2; 2nd in the queue, after job b"},
		"free, but somebody waits for it": {seated(two, 1, cpus("job a", 1), cpus("job b", 2), cpus("job c", 1)), "",
			"waits for 1 core: job a holds 1 of 2; 2nd in the queue, after job b"},
		"priority": {seated(two, 1, cpus("job a", 2), urgent, cpus("", 2), cpus("job b", 2)), "",
			"waits for 2 cores: job a holds 2 of 2; 3rd in the queue, after somebody"},
		"memory": {seated(two, 1, Wish{Label: "job a", Each: Amount{Memory: 3 * gb}}, Wish{Each: Amount{Memory: 2 * gb}}), "",
			"waits for 2 GB: job a holds 3 GB of 4 GB"},
		"several kinds": {seated(two, 2, Wish{Label: "job a", Each: Amount{CPUs: 2}}, Wish{Label: "job b", Each: Amount{GPUs: 1}},
			Wish{Each: Amount{CPUs: 1, Memory: gb, GPUs: 2}}), "",
			"waits for 1 core, 1 GB and 2 GPUs: job a holds 2 of 2 cores; job b holds 1 of 2 GPUs"},
		"many hold it": {seated(four, 5, cpus("job a", 1), cpus("job b", 1), cpus("job c", 1), cpus("job d", 0.5), cpus("", 0.5), cpus("job e", 4)), "",
			"waits for 4 cores: job a holds 1 of 4; job b holds 1; job c holds 1; and 2 more"},
		"a pair": {seated(two, 1, cpus("job a", 1), pair("job b", Amount{CPUs: 1})), "",
			"waits for 1 core for each of 2 nodes: job a holds 1 of 2"},
		"a pair holds it all before both are there": {seated(two, 1, pair("job a", Amount{GPUs: 1}), Wish{Each: Amount{GPUs: 1}}), "",
			"waits for 1 GPU: job a holds 2 of 2"},
		"its own agent":    {seated(two, 2, pair("job a", Amount{GPUs: 1}), pair("job a", Amount{GPUs: 1}), pair("job a", Amount{GPUs: 1})), "", ""},
		"paused":           {seated(two, 0, inQueue(cpus("job a", 1), "night", Amount{})), "night", "waits: queue night is paused"},
		"paused, no wish":  {seated(two, 0, Wish{Queue: "night"}), "night", "waits: queue night is paused"},
		"another paused":   {seated(two, 0, Wish{Queue: "night"}, cpus("job b", 1)), "night", ""},
		"paused, but now":  {seated(two, 0, Wish{Queue: "night", Now: true, Each: Amount{CPUs: 1}}), "night", ""},
		"no wish, no wait": {seated(two, 1, cpus("job a", 2), cpus("job b", 2), Wish{}), "", ""},
		"share": {seated(four, 1, inQueue(cpus("job a", 1), "a", Amount{CPUs: 1}), inQueue(cpus("job b", 1), "a", Amount{CPUs: 1})), "",
			"waits for 1 core: queue a may use 1 core; job a holds 1"},
		"share of several kinds": {seated(four, 1, inQueue(Wish{Label: "job a", Each: Amount{1, gb, 1}}, "a", Amount{1, gb, 1}),
			inQueue(Wish{Each: Amount{1, gb, 1}}, "a", Amount{1, gb, 1})), "",
			"waits for 1 core, 1 GB and 1 GPU: queue a may use 1 core, 1 GB and 1 GPU; job a holds 1 core; job a holds 1 GB; job a holds 1 GPU"},
		"third of a share": {seated(four, 1, inQueue(cpus("job a", 1), "a", Amount{CPUs: 1}), cpus("job x", 4), inQueue(cpus("job b", 1), "a", Amount{CPUs: 1}), inQueue(cpus("job c", 1), "a", Amount{CPUs: 1})), "",
			"waits for 1 core: queue a may use 1 core; job a holds 1; 2nd in the queue, after job b"},
		"what is left of a share, but somebody waits for it": {seated(four, 1, inQueue(cpus("job a", 1), "a", Amount{CPUs: 2}), inQueue(cpus("job b", 2), "a", Amount{CPUs: 2}), inQueue(cpus("job c", 1), "a", Amount{CPUs: 2})), "",
			"waits for 1 core: queue a may use 2 cores; job a holds 1; 2nd in the queue, after job b"},
		"a peer whom the share holds up": {seated(four, 1, inQueue(cpus("job a", 1), "a", Amount{CPUs: 1}), inQueue(Wish{Label: "job b", Each: Amount{CPUs: 1, GPUs: 4}}, "a", Amount{CPUs: 1}),
			inQueue(Wish{Label: "job c", Each: Amount{GPUs: 1}}, "a", Amount{CPUs: 1}), Wish{Each: Amount{GPUs: 4}}), "",
			"waits for 4 GPUs: 2nd in the queue, after job c"},
		"another queue's share":            {seated(four, 1, inQueue(cpus("job a", 1), "a", Amount{CPUs: 1}), inQueue(cpus("job b", 1), "a", Amount{CPUs: 1}), cpus("job c", 3)), "", ""},
		"what the one ahead does not want": {seated(two, 1, Wish{Label: "job a", Each: Amount{GPUs: 2}}, Wish{Each: Amount{GPUs: 1, CPUs: 1}}, cpus("job c", 1)), "", ""},
		"what would make the one ahead wait longer": {seated(two, 1, Wish{Label: "job a", Each: Amount{GPUs: 2}}, Wish{Label: "job b", Each: Amount{GPUs: 1, CPUs: 1}}, cpus("job c", 2)), "",
			"waits for 2 cores: 2nd in the queue, after job b"},
		"now takes what is held":   {seated(two, 1, cpus("job a", 2), Wish{Now: true, Each: Amount{CPUs: 2}}), "", ""},
		"what now took is counted": {seated(two, 2, cpus("job a", 1), Wish{Label: "job n", Now: true, Each: Amount{CPUs: 2}}, cpus("job b", 1)), "", "waits for 1 core: job a holds 1 of 2; job n holds 2"},
	} {
		c.line.paused[c.paused] = true
		v := c.line.judgeClaim(c.line.entries[len(c.line.entries)-1])
		if v.why != c.want || v.isGranted() != (c.want == "") {
			t.Errorf("%s:\ngot  %q, granted %v\nwant %q", name, v.why, v.isGranted(), c.want)
		}
	}
}

func TestCoresAndGPUsThatStandTogetherAreDealt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line  line
		cores [][]int
		gpus  [][]int
	}{
		"the lowest":                 {seated(machine(8, 0, 8), 0, Wish{Each: Amount{2, 0, 2}}), [][]int{{0, 1}}, [][]int{{0, 1}}},
		"no part of a core":          {seated(machine(8, 0, 0), 0, cpus("", 1.5)), [][]int{nil}, [][]int{nil}},
		"of two members":             {seated(machine(8, 0, 8), 0, Wish{Group: "g", Members: 2, Each: Amount{2, 0, 1}}), [][]int{{0, 1}, {2, 3}}, [][]int{{0}, {1}}},
		"beside others":              {seated(machine(8, 0, 8), 1, Wish{Each: Amount{1, 0, 1}}, Wish{Each: Amount{3, 0, 3}}), [][]int{{1, 2, 3}}, [][]int{{1, 2, 3}}},
		"now, and enough is free":    {seated(machine(4, 0, 4), 1, Wish{Each: Amount{1, 0, 1}}, Wish{Now: true, Each: Amount{2, 0, 2}}), [][]int{{1, 2}}, [][]int{{1, 2}}},
		"now, and too little is":     {seated(machine(4, 0, 4), 1, Wish{Each: Amount{3, 0, 3}}, Wish{Now: true, Each: Amount{2, 0, 2}}), [][]int{nil}, [][]int{{0, 3}}},
		"now, beside half of a core": {seated(machine(2, 0, 0), 1, cpus("", 0.5), Wish{Now: true, Each: Amount{CPUs: 2}}), [][]int{{0, 1}}, [][]int{nil}},
	} {
		v := c.line.judgeClaim(c.line.entries[len(c.line.entries)-1])
		var cores, gpus [][]int
		for _, p := range v.parts {
			var its []int
			for _, d := range p.GPUs {
				its = append(its, d.Index)
			}
			cores, gpus = append(cores, p.Cores), append(gpus, its)
		}
		if diff := cmp.Diff([][][]int{c.cores, c.gpus}, [][][]int{cores, gpus}); diff != "" {
			t.Errorf("%s: what was dealt differs (-want +got):\n%s", name, diff)
		}
	}
}

// A process may be bound to some cores, or see some GPUs: what others hold beside
// these is no loss to it.
func TestOthersCoresDoNotCount(t *testing.T) {
	t.Parallel()
	l := seated(machine(2, 0, 2), 2, Wish{Label: "job a", Each: Amount{2, 0, 2}}, cpus("job b", 0))
	mine := &entry{9, record{Wish: Wish{Each: Amount{2, 0, 1}}.withDefaults(), Part: noPart,
		View: view{Cores: []int{1, 2, 3}, CPUs: 3, GPUs: []device{{1, "GPU-1"}, {2, "GPU-2"}}}}}
	l.entries = append(l.entries, mine)
	if diff := cmp.Diff([]part{{Cores: []int{2, 3}, GPUs: []device{{2, "GPU-2"}}}}, l.judgeClaim(mine).parts); diff != "" {
		t.Errorf("what it got differs (-want +got):\n%s", diff)
	}
	mine.Each.CPUs = 3
	if v := l.judgeClaim(mine); v.why != "waits for 3 cores and 1 GPU: job a holds 1 of 3" {
		t.Errorf("it got %v, waits for %q", v.parts, v.why)
	}
}

func TestEachWatchesTheOneBefore(t *testing.T) {
	t.Parallel()
	high := cpus("", 1)
	high.Priority = 5
	l := seated(machine(2, 0, 0), 2, cpus("", 1), cpus("", 1), cpus("", 1), high, cpus("", 2))
	for number, want := range map[int64][]int64{4: {1, 2}, 3: {4}, 5: {3}} {
		v := l.judgeClaim(l.entries[number-1])
		if diff := cmp.Diff(want, v.watch); diff != "" || v.isGranted() {
			t.Errorf("what %d watches differs (-want +got):\n%s", number, diff)
		}
	}
}

func TestWhatIsLargerThanTheMachineIsRefused(t *testing.T) {
	t.Parallel()
	total := Amount{2, 4 * gb, 1}
	share := Amount{CPUs: 1, Memory: gb}
	for _, c := range []struct {
		wish       Wish
		want, hint string
	}{
		{Wish{}, "", ""},
		{Wish{Each: total}, "", ""},
		{cpus("", 2.5), "reserve 2.5 cores: this machine has 2 cores", "Ask for less with --cpus, or run it where there are more."},
		{Wish{Each: Amount{Memory: 5 * gb}}, "reserve 5 GB: this machine has 4 GB", "Ask for less with --memory, or run it where there are more."},
		{Wish{Each: Amount{GPUs: 2}}, "reserve 2 GPUs: this machine has 1 GPU", "Ask for less with --gpus, or run it where there are more."},
		{Wish{Group: "g", Members: 3, Each: Amount{CPUs: 1}}, "reserve 1 core for each of 3 nodes: this machine has 2 cores", "Ask for less with --cpus, or run it where there are more."},
		{Wish{Group: "g", Members: 3, Each: Amount{CPUs: 2.0 / 3, Memory: 4 * gb / 3}}, "", ""},
		{Wish{Group: "g", Members: 3, Each: Amount{Memory: math.MaxInt64}}, "reserve 8388608 TB for each of 3 nodes: this machine has 4 GB", "Ask for less with --memory, or run it where there are more."},
		{Wish{Queue: "a", Share: share, Each: Amount{CPUs: 2}}, "reserve 2 cores: queue a may use 1 core", "Ask for less, raise cpus of queue a in the config, or use another --queue."},
		{Wish{Queue: "a", Share: share, Each: Amount{CPUs: 1, Memory: 2 * gb}}, "reserve 1 core and 2 GB: queue a may use 1 GB", "Ask for less, raise memory of queue a in the config, or use another --queue."},
		{Wish{Queue: "a", Share: share, Each: Amount{CPUs: 2}, Now: true}, "", ""},
		{Wish{Each: Amount{CPUs: -1, Memory: -1, GPUs: -1}}, "", ""},
		{cpus("", math.NaN()), "", ""},
		{cpus("", math.Inf(1)), "reserve 1000000000 cores: this machine has 2 cores", "Ask for less with --cpus, or run it where there are more."},
	} {
		err := total.Fits(c.wish)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want || fault.Hint(err) != c.hint || err != nil && fault.KindOf(err) != fault.Full {
			t.Errorf("%+v:\ngot  %q (%q)\nwant %q (%q)", c.wish, got, fault.Hint(err), c.want, c.hint)
		}
	}
	if err := (Amount{CPUs: 2}).Fits(Wish{Each: Amount{Memory: gb}}); err != nil {
		t.Errorf("memory that is not known is too little: %v", err)
	}
	if err := (Amount{CPUs: 2}).Fits(Wish{Each: Amount{GPUs: 1}}); err == nil || err.Error() != "reserve 1 GPU: this machine has none" {
		t.Errorf("a GPU where there is none: %v", err)
	}
}

func TestOrdinals(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th", 122: "122nd"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

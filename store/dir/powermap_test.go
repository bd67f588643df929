package dir_test

import (
	"flag"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/drover-run/drover/store/dir"
)

var wantImages = flag.Int("images", 1_000, "how many power cuts TestPowerCutUnderTheWorkOfAMap looks at, at least")

// mapAgents work on as many chunks, and one more.
const mapAgents = 3

// mapWork is what the agents of a map write, in a random order: entries of chunks'
// logs, outputs and then the results that name them, indexes that follow each other,
// heartbeats. While one writes, another does something at a random moment.
type mapWork struct {
	w      *world
	agents [mapAgents]*dir.Bucket
	next   [mapAgents]map[int]int // the entry that an agent thinks is free, by chunk
	index  [mapAgents]string
	steps  int
}

// play does so many steps.
func (m *mapWork) play(steps int) {
	for i := range m.agents {
		m.agents[i], m.next[i] = m.w.open(), map[int]int{}
	}
	m.w.also = m.sound
	for range steps {
		a := m.w.r.IntN(mapAgents)
		other := (a + 1 + m.w.r.IntN(mapAgents-1)) % mapAgents
		m.w.wait, m.w.inside = m.w.r.IntN(2*longest), func() { m.step(other) }
		m.step(a)
		m.w.inside = nil
	}
}

func (m *mapWork) step(a int) {
	m.steps++
	chunk := m.w.r.IntN(mapAgents + 1)
	switch m.w.r.IntN(6) {
	case 0, 1:
		m.append(a, chunk, fmt.Sprintf("claimed by %d in step %d", a, m.steps))
	case 2, 3:
		out := fmt.Sprintf("p/t/j/out/%d/%d-%d/o/result.txt", m.steps%4, a, m.steps)
		m.w.create(m.agents[a], out, strings.Repeat(fmt.Sprintf("output of step %d; ", m.steps), 4))
		m.append(a, chunk, "names "+out)
	case 4:
		index := fmt.Sprintf("p/t/j/results/%06d_%08d_%d", chunk, m.steps, a)
		m.w.create(m.agents[a], index, strings.Repeat("index ", 20))
		if m.index[a] != "" {
			m.w.delete(m.agents[a], m.index[a])
		}
		m.index[a] = index
	default:
		m.w.put(m.agents[a], fmt.Sprintf("p/t/j/agents/1-%d", a), fmt.Sprintf("beat %d", m.steps))
	}
}

// append creates the next entry that the agent knows of. An agent that finds it taken
// reads it, and writes behind it.
func (m *mapWork) append(a, chunk int, fact string) {
	for {
		n := m.next[a][chunk]
		m.next[a][chunk]++
		key := fmt.Sprintf("p/t/j/chunks/%02x/%06d/%08d", chunk, chunk, n)
		m.w.create(m.agents[a], key, fact)
		if !m.w.some[key] || m.w.must[key] == fact {
			return
		}
		m.w.show(m.agents[a], key)
	}
}

// sound says what is wrong with an image that no single object shows: an entry behind
// a gap, or one that names an output which is not there.
func (m *mapWork) sound(b *dir.Bucket) string {
	found, _, err := b.List(m.w.t.Context(), "p/t/j/chunks/", "", 1000)
	if err != nil {
		return err.Error()
	}
	next := map[string]int{}
	for _, o := range found { // by key
		log, entry := path.Split(o.Key)
		if want := fmt.Sprintf("%08d", next[log]); entry != want {
			return fmt.Sprintf("%s: there is no entry %s before %s", log, want, entry)
		}
		next[log]++
		fact, err := get(m.w.t, b, o.Key)
		if err != nil {
			return err.Error()
		}
		out, names := strings.CutPrefix(fact, "names ")
		if body, err := get(m.w.t, b, out); names && (err != nil || !m.w.tried[out][body]) {
			return fmt.Sprintf("%s names %s, which is %q, %v", o.Key, out, body, err)
		}
	}
	return ""
}

// mapCuts plays histories until enough images were looked at, and says what was lost.
func mapCuts(t *testing.T, least int, change func(d *disk)) (images, histories int, lost []string) {
	for images < least && len(lost) == 0 {
		histories++
		w := newWorld(t, uint64(histories))
		if change != nil {
			change(w.disk)
		}
		m := mapWork{w: w}
		m.play(24)
		images += w.images
		for _, l := range w.lost {
			lost = append(lost, fmt.Sprintf("history %d: %s", histories, l))
		}
	}
	return images, histories, lost
}

func TestPowerCutUnderTheWorkOfAMap(t *testing.T) {
	images, histories, lost := mapCuts(t, *wantImages, nil)
	if len(lost) > 0 {
		t.Fatalf("%d of %d images break a promise, the first by %s", len(lost), images, lost[0])
	}
	t.Logf("%d power cuts in %d histories of a map, 0 bad", images, histories)
}

func TestPowerCutUnderTheWorkOfAMapFindsEverySyncThatIsMissing(t *testing.T) {
	within := func(prefix string) func(d *disk) {
		return func(d *disk) {
			d.skipSync = func(n string, folder bool) bool { return folder && strings.HasPrefix(n, prefix) }
		}
	}
	for name, mutant := range map[string]func(d *disk){
		"no sync of files":        func(d *disk) { d.skipSync = func(_ string, folder bool) bool { return !folder } },
		"no sync of folders":      within("/"),
		"no sync of chunks' logs": within("/home/store/p/t/j/chunks/"),
		"no sync of outputs":      within("/home/store/p/t/j/out"),
		"no sync of indexes":      within("/home/store/p/t/j/results"),
	} {
		t.Run(name, func(t *testing.T) {
			if images, _, lost := mapCuts(t, 20_000, mutant); len(lost) == 0 {
				t.Errorf("not found in %d images", images)
			}
		})
	}
}

package host

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// card is a GPU as it is plugged in.
type card struct {
	GPU
	devices []GPU  // MIG devices, when it is cut into some
	trouble string // what nvidia-smi says of a GPU that has failed: "[GPU is lost]"
}

// parseTable reads "index, uuid, name, memory.total", a line for each GPU. Values
// are not quoted, and a name may have commas in it. What a GPU does not tell
// stands in brackets.
func parseTable(text []byte) ([]card, error) {
	if string(bytes.TrimSpace(text)) == "No devices were found" {
		return nil, nil
	}
	var all []card
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		c, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", strings.TrimSpace(line), err)
		}
		index := strconv.Itoa(c.Index)
		if seen[index] || c.UUID != "" && seen[c.UUID] {
			return nil, fmt.Errorf("read %q: that GPU was listed before", strings.TrimSpace(line))
		}
		seen[index], seen[c.UUID] = true, true
		all = append(all, c)
	}
	return all, nil
}

func parseRow(line string) (c card, err error) {
	index, rest, _ := strings.Cut(line, ",")
	uuid, rest, _ := strings.Cut(rest, ",")
	comma := strings.LastIndexByte(rest, ',')
	if comma < 0 {
		return c, fmt.Errorf("there are not 4 values")
	}
	c.Index, err = strconv.Atoi(strings.TrimSpace(index))
	if err != nil || c.Index < 0 {
		return c, fmt.Errorf("%q is not an index", strings.TrimSpace(index))
	}
	c.Name = strings.TrimSpace(rest[:comma])
	uuid, memory := strings.TrimSpace(uuid), strings.TrimSpace(rest[comma+1:])
	for _, value := range []string{uuid, c.Name, memory} {
		if strings.HasPrefix(value, "[") && !untold[value] {
			c.trouble = value
			return c, nil
		}
	}
	if c.Memory, err = parseMemory(memory); err != nil {
		return c, err
	}
	if !untold[uuid] && !uuids.MatchString(uuid) {
		return c, fmt.Errorf("%q is not a UUID", uuid)
	}
	if strings.HasPrefix(uuid, "GPU-") { // a board with a single GPU may have one that CUDA does not take
		c.UUID = uuid
	}
	return c, nil
}

// untold is what stands for a value that a healthy GPU does not tell. Memory is
// one where the GPU has none of its own. Of a GPU that has failed, all values
// are "[GPU is lost]", "[GPU requires reset]", "[Unknown Error]" or the like.
var untold = map[string]bool{
	"[N/A]": true, "N/A": true, "[Not Supported]": true, "[Insufficient Permissions]": true, "[Not Found]": true,
}

// uuids is what is passed on in CUDA_VISIBLE_DEVICES. Those of MIG devices were
// "MIG-GPU-<uuid>/1/0" before driver 470.
var uuids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9/-]*$`)

// parseMemory reads MiB.
func parseMemory(s string) (int64, error) {
	if untold[s] {
		return 0, nil
	}
	mib, err := strconv.ParseInt(s, 10, 64)
	if err != nil || mib < 0 || mib > math.MaxInt64>>20 {
		return 0, fmt.Errorf("%q is not a number of MiB", s)
	}
	return mib << 20, nil
}

// A line of nvidia-smi --list-gpus for a MIG device stands below its GPU's:
//
//	GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-48aeb943-9458-4282-da24-e5f49e0db44b)
//	  MIG 1g.5gb      Device  0: (UUID: MIG-fb42055e-9e53-5764-9278-438605a3014c)
var (
	cardLine   = regexp.MustCompile(`^GPU +(\d+):`)
	deviceLine = regexp.MustCompile(`^\s+MIG +(\S+) +Device +\d+: +\(UUID: +(MIG-[^()\s]+)\)\s*$`)
	profile    = regexp.MustCompile(`\.(\d{1,6})gb`)
)

// addDevices puts the MIG devices of the list into their cards. Lines of other
// shapes are remarks, and count for nothing.
func addDevices(cards []card, list []byte) error {
	var of *card
	seen := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if m := cardLine.FindStringSubmatch(line); m != nil {
			of = byIndex(cards, m[1])
			continue
		}
		m := deviceLine.FindStringSubmatch(line)
		if m == nil || of == nil {
			continue
		}
		if !uuids.MatchString(m[2]) || seen[m[2]] {
			return fmt.Errorf("read %q: that is not a UUID, or was listed before", strings.TrimSpace(line))
		}
		seen[m[2]] = true
		d := GPU{Index: of.Index, UUID: m[2], Name: of.Name + " MIG " + m[1]}
		if gb := profile.FindStringSubmatch(m[1]); gb != nil {
			n, _ := strconv.ParseInt(gb[1], 10, 64) // digits, and few
			d.Memory = n << 30
		}
		of.devices = append(of.devices, d)
	}
	return nil
}

func byIndex(cards []card, index string) *card {
	for i := range cards {
		if strconv.Itoa(cards[i].Index) == index {
			return &cards[i]
		}
	}
	return nil
}

package contract

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
)

// HostsFile is the machine's /etc/hosts with a line for each node at the end, so
// that the names in SM_HOSTS can be reached. Where the machine has other
// addresses for these names they go: the first would win. A node with a name
// as its address gets no line, and what the machine says of it stays. Nil when
// there is nothing to add.
func (f Facts) HostsFile(machine []byte) []byte {
	var added []string
	names := map[string]bool{}
	for rank, p := range f.Peers {
		if _, err := netip.ParseAddr(p.Address); err == nil && rank < len(f.Hosts) {
			added = append(added, p.Address+" "+f.Hosts[rank])
			names[strings.ToLower(f.Hosts[rank])] = true
		}
	}
	if added == nil {
		return nil
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(machine)) {
		b.WriteString(without(line, names))
	}
	if n := b.Len(); n > 0 && b.Bytes()[n-1] != '\n' {
		b.WriteByte('\n')
	}
	b.WriteString(strings.Join(added, "\n") + "\n")
	return b.Bytes()
}

// without is a line of /etc/hosts less some names; nothing, if no other name is
// left. A line without any of them stays as it is.
func without(line string, names map[string]bool) string {
	text, comment, commented := strings.Cut(line, "#")
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return line
	}
	kept := slices.DeleteFunc(slices.Clone(fields[1:]), func(name string) bool { return names[strings.ToLower(name)] })
	switch {
	case len(kept) == len(fields)-1:
		return line
	case len(kept) == 0:
		return ""
	}
	rest := fields[0] + " " + strings.Join(kept, " ")
	if commented {
		return rest + " #" + comment
	}
	return rest + "\n"
}

package process

import "slices"

// Supervised are the programs that supervisors of id's process run: what stands right below
// its supervisors. Of a process that has ended there are none.
func Supervised(id Identity) ([]Identity, error) {
	if gone, known := id.Gone(); gone || !known {
		return nil, nil
	}
	all, err := List()
	if err != nil {
		return nil, err
	}
	supervisors := map[int]bool{}
	for _, p := range all {
		if p.Parent == id.PID {
			supervisors[p.PID] = true
		}
	}
	var found []Identity
	for _, p := range all {
		if supervisors[p.Parent] {
			found = append(found, Identity{Boot: id.Boot, Namespace: id.Namespace, PID: p.PID, Start: p.Start})
		}
	}
	slices.SortFunc(found, func(a, b Identity) int { return a.PID - b.PID })
	return found, nil
}

// Below lists the living processes below parent: those that have an ancestor in it.
func Below(parent int) ([]Entry, error) {
	all, err := List()
	return Descendants(all, func(p Entry) bool { return p.Parent == parent }), err
}

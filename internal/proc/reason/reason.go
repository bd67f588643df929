// Package reason says in a few words why the system refused something. It is proved by the
// wording of what package proc and the packages beside this one report.
package reason

// Of is what the innermost error says: the system's own words, without the path that a caller names anyway.
func Of(err error) string {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err.Error()
		}
		err = u.Unwrap()
	}
}

package host

import "errors"

// Traffic is not known here.
func Traffic() (in, out int64, err error) { return 0, 0, errors.ErrUnsupported }

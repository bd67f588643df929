//go:build !linux

package bundle

import "os"

func clone(*os.File, string) error { return errNoClone }

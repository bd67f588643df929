//go:build !linux

package tree

import "os"

func clone(*os.File, string) error { return errNoClone }

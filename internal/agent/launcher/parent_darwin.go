package launcher

import "syscall"

// withParent can do nothing here: what stays behind ends with the tree.
func withParent() *syscall.SysProcAttr { return nil }

//go:build nobuckets

package main

import "github.com/drover-run/drover/driver"

// remote are the targets with agents that need a bucket as their store: this program opens none.
var remote []driver.Target

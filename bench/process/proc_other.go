//go:build !linux

package process

import "time"

// Without /proc nothing is known of other processes, and no claim about them judged.
func (Program) ResidentPeaks() Memory { return nil }

func (Program) Shares() Shares { return Shares{} }

func (Program) AgentCPUTime() time.Duration { return 0 }

func (Program) Living() []string { return nil }

func FileSystem(string) string { return "an unknown file system" }

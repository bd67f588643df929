package wire

import (
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"
)

// SendStarted reports the program's start together with its credentials, which
// the kernel translates into the agent's own numbers for it.
func SendStarted(agent *os.File, r Report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var creds []byte
	if os.Getpid() == 1 {
		creds = unix.UnixCredentials(&unix.Ucred{Pid: int32(r.Started), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
	}
	return unix.Sendmsg(int(agent.Fd()), b, creds, nil, unix.MSG_NOSIGNAL)
}

// passCredentials has every message on fd tell its sender.
func passCredentials(fd int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
}

// Read remembers the first speaker.
func (e *AgentEnd) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := e.ReadMsgUnix(b, oob)
	n = max(n, 0) // it is -1 where the other end has gone with something unread, and no Reader may say that
	if e.Speaker != 0 || oobn == 0 {
		return n, err
	}
	if msgs, perr := unix.ParseSocketControlMessage(oob[:oobn]); perr == nil && len(msgs) > 0 {
		if creds, perr := unix.ParseUnixCredentials(&msgs[0]); perr == nil {
			e.Speaker = int(creds.Pid)
		}
	}
	return n, err
}

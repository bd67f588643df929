package dir

import (
	"os"
	"syscall"
)

// networkTypes are the f_type numbers, from Linux's magic.h and the modules' own
// sources, of file systems where another machine may change names. FUSE is
// there because sshfs, s3fs, GlusterFS and virtiofs are FUSE; for a local FUSE
// the only cost is a few requests per absent object.
var networkTypes = map[uint32]string{
	0x6969:     "nfs",
	0x517b:     "smb",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x0bd00bd0: "lustre",
	0x65735546: "fuse",
	0x00c36400: "ceph",
	0x5346414f: "afs",
	0x6b414653: "kafs",
	0x01021997: "9p",
	0x19830326: "beegfs",
	0x47504653: "gpfs",
	0xaad7aaea: "panfs",
	0x01161970: "gfs2",
	0x7461636f: "ocfs2",
}

func network(name string) (bool, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(name, &st); err != nil {
		return false, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	return networkTypes[uint32(st.Type)] != "", nil
}

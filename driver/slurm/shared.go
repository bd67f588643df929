package slurm

import (
	"os"
	"slices"
	"strings"
)

// remote are the types of file systems that the nodes of a cluster usually have mounted as this
// machine has.
var remote = []string{"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "cifs", "smb3", "afs", "panfs", "wekafs", "9p", "gfs2", "ocfs2", "fuse.glusterfs", "orangefs", "pvfs2", "virtiofs", "fuse.juicefs", "fuse.mfs", "fuse.quobyte", "fuse.cvmfs2"}

// shared are the folders where this machine has mounted network file systems. On other systems than
// Linux, none is known.
func shared() []string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	return remoteMounts(string(text))
}

// remoteMounts reads lines such as "server:/home /home nfs4 rw 0 0", in which blanks
// within a name are octal.
func remoteMounts(text string) (folders []string) {
	names := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 3 && slices.Contains(remote, f[2]) {
			folders = append(folders, names.Replace(f[1]))
		}
	}
	return folders
}

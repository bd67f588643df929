package gcpbatch

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/fault"
)

// volume is what the containers of agents see of a bucket, a file share or a disk.
type volume struct {
	bucket, folder string // gs://BUCKET/FOLDER
	server, share  string // nfs://SERVER/SHARE
	zone, disk     string // disk/ZONE/NAME, which exists
	at             string // where they see it
	writable       bool
}

// volumeForm is that of --target-arg volume=SOURCE:PATH.
var volumeForm = regexp.MustCompile(`^(?:gs://([a-z0-9][a-z0-9._-]{1,221}[a-z0-9])((?:/[^:]*)?)|nfs://([a-zA-Z0-9.-]+)(/[^:]+)|disk/([a-z]+-[a-z]+[0-9]+-[a-z])/([a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)):(/[^:\s]*)(?::(ro|rw))?$`)

// parseVolume reads the value of --target-arg volume.
func parseVolume(value string) (v volume, err error) {
	m := volumeForm.FindStringSubmatch(value)
	if m == nil {
		return v, fault.New(fault.Invalid, "Write it as `--target-arg volume=gs://bucket/folder:/data`, with `nfs://SERVER/SHARE` or `disk/ZONE/NAME` in the place of the bucket; buckets and shares are read-only unless `:rw` stands behind.",
			"read --target-arg volume=%s: it is no bucket, share or disk with a path of the container", value)
	}
	v = volume{bucket: m[1], folder: strings.Trim(m[2], "/"), server: m[3], share: m[4], zone: m[5], disk: m[6], at: path.Clean(m[7]), writable: m[8] == "rw"}
	switch {
	case v.at == "/":
		return v, fault.New(fault.Invalid, "Choose a folder: `--target-arg volume=SOURCE:/data`.", "read --target-arg volume=%s: it would hide the whole container", value)
	case v.disk != "" && v.writable:
		return v, fault.New(fault.Invalid, "Leave `:rw` away, or use a bucket or a share.", "read --target-arg volume=%s: Google Batch mounts disks that exist for reading alone", value)
	}
	return v, nil
}

// volumeFolder is where a machine has its volumes. Source: "Use storage volumes", Batch, 2026-11: below /mnt/disks on Container-Optimized OS.
const volumeFolder = "/mnt/disks/drover-"

// addVolumes puts volumes into a request.
func addVolumes(in *batchapi.Job, at site, all []volume) {
	task := &in.TaskGroups[0].TaskSpec
	for i, v := range all {
		name := "drover-" + strconv.Itoa(i)
		mount, mode := batchapi.Volume{MountPath: volumeFolder + strconv.Itoa(i)}, ":ro"
		switch {
		case v.bucket != "":
			mount.GCS = &batchapi.GCS{RemotePath: path.Join(v.bucket, v.folder)}
		case v.server != "":
			mount.NFS = &batchapi.NFS{Server: v.server, RemotePath: v.share}
		default:
			mount.DeviceName, mount.MountOptions = name, []string{"ro", "noload"}
			policy := in.AllocationPolicy.Instances[0].Policy
			policy.Disks = append(policy.Disks, batchapi.AttachedDisk{DeviceName: name, ExistingDisk: fmt.Sprintf("projects/%s/zones/%s/disks/%s", at.project, v.zone, v.disk)})
		}
		if v.writable {
			mode = ":rw"
		}
		task.Volumes = append(task.Volumes, mount)
		container := task.Runnables[len(task.Runnables)-1].Container
		container.Volumes = append(container.Volumes, mount.MountPath+":"+v.at+mode)
	}
}

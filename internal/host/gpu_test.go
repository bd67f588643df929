package host

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
)

// stub is an environ in which nvidia-smi is the stub of testdata.
func stub(t *testing.T, more ...string) []string {
	t.Helper()
	file, err := filepath.Abs("testdata/stub-nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(file, filepath.Join(bin, "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	return append([]string{"PATH=" + bin + ":/usr/bin:/bin"}, more...)
}

const mib = int64(1) << 20

// tables are what nvidia-smi 440 to 580 print of real machines, with other UUIDs.
var tables = []struct {
	name, table, list string
	want              []GPU
}{
	{
		"two of one model",
		"0, GPU-48aeb943-9458-4282-da24-e5f49e0db44b, NVIDIA A100-SXM4-80GB, 81920\n1, GPU-05aa99be-b706-0dc2-ab62-dd2f2227b7d1, NVIDIA A100-SXM4-80GB, 81920",
		"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-48aeb943-9458-4282-da24-e5f49e0db44b)\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-05aa99be-b706-0dc2-ab62-dd2f2227b7d1)",
		[]GPU{
			{0, "GPU-48aeb943-9458-4282-da24-e5f49e0db44b", "NVIDIA A100-SXM4-80GB", 81920 * mib},
			{1, "GPU-05aa99be-b706-0dc2-ab62-dd2f2227b7d1", "NVIDIA A100-SXM4-80GB", 81920 * mib},
		},
	},
	{
		"cut into MIG devices, and a whole one",
		"0, GPU-4101de38, NVIDIA A100 80GB PCIe, 81920\n1, GPU-9cabfc96, Tesla T4, 15109",
		"GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-4101de38)\n  MIG 3g.40gb     Device  0: (UUID: MIG-d771d938)\n" +
			"  MIG 1g.10gb+me  Device  1: (UUID: MIG-761ea9d1)\n  MIG 1c.2g.20gb  Device  2: (UUID: MIG-08bce7f3)\nGPU 1: Tesla T4 (UUID: GPU-9cabfc96)",
		[]GPU{
			{0, "MIG-d771d938", "NVIDIA A100 80GB PCIe MIG 3g.40gb", 40 << 30},
			{0, "MIG-761ea9d1", "NVIDIA A100 80GB PCIe MIG 1g.10gb+me", 10 << 30},
			{0, "MIG-08bce7f3", "NVIDIA A100 80GB PCIe MIG 1c.2g.20gb", 20 << 30},
			{1, "GPU-9cabfc96", "Tesla T4", 15109 * mib},
		},
	},
	{
		"MIG devices of an old driver",
		"0, GPU-4101de38, A100-SXM4-40GB, 40537",
		"GPU 0: A100-SXM4-40GB (UUID: GPU-4101de38)\n  MIG 1g.5gb Device 0: (UUID: MIG-GPU-4101de38/7/0)",
		[]GPU{{0, "MIG-GPU-4101de38/7/0", "A100-SXM4-40GB MIG 1g.5gb", 5 << 30}},
	},
	{
		"no memory of its own",
		"0, GPU-2dee1e25-b3b5-007e-2b55-79f2d0f2ebe5, NVIDIA GB10, [N/A]",
		"GPU 0: NVIDIA GB10 (UUID: GPU-2dee1e25-b3b5-007e-2b55-79f2d0f2ebe5)",
		[]GPU{{0, "GPU-2dee1e25-b3b5-007e-2b55-79f2d0f2ebe5", "NVIDIA GB10", 0}},
	},
	{
		"old ones that tell little",
		"0, [Not Supported], GeForce GT 440, [Not Supported]\n1, [Not Supported], GeForce GT 440, 1024", "",
		[]GPU{{0, "", "GeForce GT 440", 0}, {1, "", "GeForce GT 440", 1024 * mib}},
	},
	{
		"a board whose UUID CUDA does not take",
		"0, 54855efa-10a0-56b3-bc1a-6a86e7a2b4d5, Orin (nvgpu), [N/A]",
		"GPU 0: Orin (nvgpu) (UUID: 54855efa-10a0-56b3-bc1a-6a86e7a2b4d5)",
		[]GPU{{0, "", "Orin (nvgpu)", 0}},
	},
	{
		"commas in the name, and a terminal's line ends",
		"1, GPU-b, Quadro, RTX 6000, Ada, 49140\r\n0, GPU-a, , 49140\r", "",
		[]GPU{{0, "GPU-a", "", 49140 * mib}, {1, "GPU-b", "Quadro, RTX 6000, Ada", 49140 * mib}},
	},
	{"no GPU", "No devices were found", "No devices were found", nil},
	{"nothing said", "", "", nil},
}

func TestGPUsAreReadAsNvidiaSmiPrintsThem(t *testing.T) {
	for _, c := range tables {
		t.Run(c.name, func(t *testing.T) {
			got, err := GPUs(t.Context(), stub(t, "STUB_TABLE="+c.table, "STUB_LIST="+c.list, "STUB_COMPLAINT=Warning: infoROM is corrupted"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the GPUs differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfGPUsOnlyThoseCUDAMaySeeAreListed(t *testing.T) {
	table := "0, GPU-aa11, A, 1\n1, GPU-aa22, A, 1\n2, GPU-bb33, A, 1\n3, GPU-cc44, A, 1"
	list := "GPU 3: A (UUID: GPU-cc44)\n  MIG 1g.5gb Device 0: (UUID: MIG-d1)\n  MIG 1g.5gb Device 1: (UUID: MIG-d2)\n  MIG 1g.5gb Device 2: (UUID: MIG-e3)"
	for value, want := range map[string]string{
		"0":                  "GPU-aa11",
		"2,1":                "GPU-aa22 GPU-bb33",
		" 0 , 02":            "GPU-aa11 GPU-bb33",
		"3":                  "MIG-d1 MIG-d2 MIG-e3",
		"0,2,-1,1":           "GPU-aa11 GPU-bb33",
		"1,9,2":              "GPU-aa22",
		"1,,2":               "GPU-aa22",
		"1,1":                "",
		"1,2,01":             "",
		"GPU-bb":             "GPU-bb33",
		"GPU-bb33,GPU-aa1":   "GPU-aa11 GPU-bb33",
		"GPU-cc44":           "MIG-d1 MIG-d2 MIG-e3",
		"GPU-bb33,GPU-aa":    "GPU-bb33",
		"GPU-bb33,1":         "GPU-bb33",
		"1,GPU-bb33":         "GPU-aa22",
		"GPU-zz,GPU-bb33":    "",
		"MIG-d2":             "MIG-d2",
		"MIG-e,MIG-d1":       "MIG-d1 MIG-e3",
		"MIG-e3,MIG-d":       "MIG-e3",
		"MIG-GPU-cc44/1/0":   "",
		"":                   "",
		"-1":                 "",
		"NoDevFiles":         "",
		"all":                "",
		"GPU-aa11,MIG-d1":    "GPU-aa11",
		"99999999999999999,": "",
	} {
		t.Run(value, func(t *testing.T) {
			// The one before is what a shell leaves when another process sets it again.
			got, err := GPUs(t.Context(), stub(t, "STUB_TABLE="+table, "STUB_LIST="+list, "CUDA_VISIBLE_DEVICES=3", "CUDA_VISIBLE_DEVICES="+value))
			if err != nil {
				t.Fatal(err)
			}
			var uuids []string
			for _, g := range got {
				uuids = append(uuids, g.UUID)
			}
			if s := strings.Join(uuids, " "); s != want {
				t.Errorf("CUDA_VISIBLE_DEVICES=%s gives %q, want %q", value, s, want)
			}
		})
	}
}

func TestWithoutADriverThereAreNoGPUs(t *testing.T) {
	for status, said := range map[int]string{
		6:  "No devices were found",
		9:  "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
		12: "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.",
		28: "No devices were found",
	} {
		got, err := GPUs(t.Context(), stub(t, "STUB_TABLE="+said, "STUB_LIST="+said, fmt.Sprint("STUB_STATUS=", status)))
		if err != nil || got != nil {
			t.Errorf("status %d gives %v, %v", status, got, err)
		}
	}
}

func TestWithoutNvidiaSmiThereAreNoGPUs(t *testing.T) {
	bin := t.TempDir()
	if err := os.Mkdir(filepath.Join(bin, "nvidia-smi"), 0o755); err != nil { // a folder is no program
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "nvidia-smi") // nor is this, a stub
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	working := stub(t, "STUB_TABLE=0, GPU-a, A, 1")
	t.Chdir(filepath.Dir(find("nvidia-smi", working)))
	for _, environ := range [][]string{nil, {"PATH="}, {"PATH=.:"}, {"PATH=" + bin + ":" + filepath.Dir(plain)}, append(working, "PATH="+bin)} {
		if got, err := GPUs(t.Context(), environ); err != nil || got != nil {
			t.Errorf("environ %q gives %v, %v", environ, got, err)
		}
	}
	if got, err := GPUs(t.Context(), working); err != nil || len(got) != 1 {
		t.Errorf("with it in the PATH there are %v, %v", got, err)
	}
}

func TestABrokenNvidiaSmiIsAFaultWithAHint(t *testing.T) {
	var said faulttest.Sayings
	const mismatch = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161"
	for _, c := range []struct {
		name    string
		environ []string
		want    string
		hint    string
	}{
		{"driver replaced", []string{"STUB_TABLE=" + mismatch, "STUB_LIST=" + mismatch, "STUB_STATUS=18"},
			`find GPUs: nvidia-smi exits with 18: "Failed to initialize NVML: Driver/library version mismatch"`, "Restart this machine"},
		{"driver replaced, said elsewhere", []string{"STUB_COMPLAINT=" + mismatch, "STUB_STATUS=1"},
			`find GPUs: nvidia-smi exits with 1: "Failed to initialize NVML: Driver/library version mismatch"`, "Restart this machine"},
		{"fallen off the bus", []string{"STUB_TABLE=Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system to recover this GPU", "STUB_STATUS=15"},
			`find GPUs: nvidia-smi exits with 15: "Unable to determine`, "--gpu-reset"},
		{"kept out", []string{"STUB_TABLE=Failed to initialize NVML: Insufficient Permissions", "STUB_STATUS=4"},
			`find GPUs: nvidia-smi exits with 4:`, "/dev/nvidia*"},
		{"lost its devices", []string{"STUB_TABLE=Failed to initialize NVML: Unknown Error", "STUB_STATUS=255"},
			`find GPUs: nvidia-smi exits with 255: "Failed to initialize NVML: Unknown Error"`, "CUDA_VISIBLE_DEVICES= drover"},
		{"a sentence and no error", []string{"STUB_TABLE=Unable to determine the device handle for GPU0: 0000:01:00.0: Unknown Error\n1, GPU-b, A, 1"},
			`there are not 4 values`, "CUDA_VISIBLE_DEVICES= drover"},
		{"no index", []string{"STUB_TABLE=x, GPU-b, A, 1"}, `"x" is not an index`, "CUDA_VISIBLE_DEVICES= drover"},
		{"no memory", []string{"STUB_TABLE=0, GPU-b, A, much"}, `"much" is not a number of MiB`, "CUDA_VISIBLE_DEVICES= drover"},
		{"too much memory", []string{"STUB_TABLE=0, GPU-b, A, 9223372036854775807"}, `is not a number of MiB`, "CUDA_VISIBLE_DEVICES= drover"},
		{"no UUID", []string{"STUB_TABLE=0, ../b, A, 1"}, `"../b" is not a UUID`, "CUDA_VISIBLE_DEVICES= drover"},
		{"one listed twice", []string{"STUB_TABLE=0, GPU-b, A, 1\n1, GPU-b, A, 1"}, `that GPU was listed before`, "CUDA_VISIBLE_DEVICES= drover"},
		{"an index listed twice", []string{"STUB_TABLE=0, GPU-a, A, 1\n0, GPU-b, A, 1"}, `that GPU was listed before`, "CUDA_VISIBLE_DEVICES= drover"},
		{"a device listed twice", []string{"STUB_TABLE=0, GPU-a, A, 1", "STUB_LIST=GPU 0: A (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-a)\n  MIG 1g.5gb Device 1: (UUID: MIG-a)"},
			`was listed before`, "CUDA_VISIBLE_DEVICES= drover"},
		{"one that has failed", []string{"STUB_TABLE=0, GPU-a, A, 1\n1, GPU-b, NVIDIA A100, [GPU is lost]"},
			`find GPUs: nvidia-smi says "[GPU is lost]" of GPU 1`, "nvidia-smi --gpu-reset -i 1"},
		{"one of which nothing is known", []string{"STUB_TABLE=0, [Unknown Error], [Unknown Error], [Unknown Error]"},
			`find GPUs: nvidia-smi says "[Unknown Error]" of GPU 0`, "nvidia-smi --gpu-reset -i 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			environ := stub(t, c.environ...)
			for _, kv := range environ {
				if path, ok := strings.CutPrefix(kv, "PATH="); ok {
					said.Hide(filepath.SplitList(path)[0], "BIN")
				}
			}
			got, err := GPUs(t.Context(), environ)
			if err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("GPUs() = %v, %v; want an error with %s", got, err, c.want)
			}
			said.Error(c.name, err)
			if fault.KindOf(err) != fault.Full || !strings.Contains(fault.Hint(err), c.hint) {
				t.Errorf("kind %v, hint %q", fault.KindOf(err), fault.Hint(err))
			}
			// The way out that the hints tell.
			if got, err := GPUs(t.Context(), stub(t, append(c.environ, "CUDA_VISIBLE_DEVICES=")...)); err != nil || got != nil {
				t.Errorf("with CUDA_VISIBLE_DEVICES= it gives %v, %v", got, err)
			}
		})
	}
	said.Compare(t, "gpus")
}

func TestAGPUThatHasFailedCanBeLeftOut(t *testing.T) {
	got, err := GPUs(t.Context(), stub(t, "STUB_TABLE=0, GPU-a, A, 1\n1, GPU-b, A, [GPU is lost]\n2, GPU-c, A, 1", "CUDA_VISIBLE_DEVICES=0,2"))
	if diff := cmp.Diff([]GPU{{0, "GPU-a", "A", mib}, {2, "GPU-c", "A", mib}}, got); diff != "" || err != nil {
		t.Errorf("%v, and the GPUs differ (-want +got):\n%s", err, diff)
	}
}

func TestAnNvidiaSmiThatCannotBeStartedIsAFault(t *testing.T) {
	bin := t.TempDir()
	text := "#!/nowhere/sh\n# a stub of nvidia-smi, whose interpreter is not there\n"
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := GPUs(t.Context(), []string{"PATH=" + bin}); fault.KindOf(err) != fault.Full || fault.Hint(err) == "" {
		t.Errorf("GPUs() = %v, %v", got, err)
	}
}

func TestNvidiaSmiIsNotWaitedForTooLong(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "hangs")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	keep, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that the stubs can open it, too
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	got, err := listGPUs(t.Context(), stub(t, "STUB_HANG="+pipe), 50*time.Millisecond)
	if err == nil || got != nil || !strings.Contains(err.Error(), "find GPUs: nvidia-smi: no answer in 50ms") || fault.Hint(err) == "" {
		t.Errorf("GPUs() = %v, %v", got, err)
	}
}

func TestAStoppedSearchForGPUsLeavesNoProcess(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "hangs")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	why := errors.New("asked to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	environ := stub(t, "STUB_HANG="+pipe)
	go func() {
		_, err := listGPUs(ctx, environ, time.Hour)
		ended <- err
	}()
	f, err := os.Open(pipe) // waits until a stub has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, len("hangs\n"))); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("GPUs() = %v", err)
	}
	// Both stubs and their children hold the pipe open: its end is theirs.
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Error(err)
	}
}

func FuzzGPUs(f *testing.F) {
	for _, c := range tables {
		f.Add(c.table, c.list, "0,1")
	}
	f.Add("0, GPU-a, A, [GPU is lost]", "GPU 0: A (UUID: GPU-a)\n  MIG 1g.99999999gb Device 0: (UUID: MIG-a/1/2)", "MIG-a")
	f.Fuzz(func(t *testing.T, table, list, value string) {
		cards, err := parseTable([]byte(table))
		if err != nil {
			return
		}
		if err := addDevices(cards, []byte(list)); err != nil {
			return
		}
		var again strings.Builder
		var whole []card
		seen := map[device]bool{}
		for _, c := range cards {
			for _, g := range append(c.devices, c.GPU) {
				if g.Index < 0 || g.Memory < 0 || strings.ContainsAny(g.UUID, ", \t\r\n\"'\x00") {
					t.Errorf("no GPU is %+v", g)
				}
				if seen[deviceOf(g)] {
					t.Errorf("%+v is there twice", g)
				}
				seen[deviceOf(g)] = true
			}
			if c.trouble == "" {
				fmt.Fprintf(&again, "%d, %s, %s, %d\n", c.Index, stdcmp.Or(c.UUID, "[N/A]"), c.Name, c.Memory>>20)
				whole = append(whole, card{GPU: c.GPU})
			}
		}
		// What was read, printed as nvidia-smi does, is read as the same.
		second, err := parseTable([]byte(again.String()))
		if diff := cmp.Diff(whole, second, cmp.AllowUnexported(card{})); err != nil || diff != "" {
			t.Errorf("%q was printed as %q: %v\n%s", table, again.String(), err, diff)
		}
		if n := len(visible(cards, value)); n > len(cards) || n > 0 && len(visibleNames(value)) == 0 {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q shows %d of %d", value, n, len(cards))
		}
	})
}

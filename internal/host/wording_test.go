package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// reads checks what a user reads of an error: the whole text, and the whole hint.
func reads(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || err.Error() != text || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}

func TestFaultsOfTheReservationsFolderSayWhatToDo(t *testing.T) {
	r := roomOf(t, 1)
	for _, row := range []struct {
		err  error
		kind fault.Kind
		hint string
	}{
		{unix.ENOSPC, fault.Full, "Free some space and run it again."},
		{unix.EDQUOT, fault.Full, "Free some space and run it again."},
		{unix.EMFILE, fault.Full, "Close some programs, or raise ulimit -n."},
		{unix.ENOLCK, fault.Denied, "Set XDG_STATE_HOME to a folder on this machine's own disk: network file systems often have no locks."},
		{errNoLocks, fault.Denied, "Set XDG_STATE_HOME to a folder on this machine's own disk: network file systems often have no locks."},
		{unix.EACCES, fault.Denied, "Reservations are locked files in " + r.Folder + ": it must be a folder on this machine's own disk that you may write to; XDG_STATE_HOME moves it."},
	} {
		reads(t, r.faultOfClaim(t.Context(), row.err, "reserve 1 core"), row.kind, "reserve 1 core: "+row.err.Error(), row.hint)
	}
}

func TestTwoPartsOfGPUsSayToUseOne(t *testing.T) {
	t.Parallel()
	_, err := Usable([]GPU{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "MIG-x"}, {Index: 1, UUID: "MIG-y"}}, 2)
	reads(t, err, fault.Invalid, "reserve 2 GPUs: this machine has 1 whole ones, and a program can use one MIG device only", "Use --gpus 1, or turn MIG off.")
}

func TestWithoutAFreePortTheFaultSaysWhereToLook(t *testing.T) {
	port, release, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, _, err = reserve(port, port)
	if err == nil || !strings.HasPrefix(err.Error(), "reserve port: none of ") || !strings.HasSuffix(err.Error(), " is free") ||
		fault.Hint(err) != "See what listens with ss -tln, and end what is not needed." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestAClaimThatIsRemovedSaysWhichFile(t *testing.T) {
	r := roomOf(t, 1)
	synctest.Test(t, func(t *testing.T) {
		first := grant(t, r, cpus("job a", 1))
		next := takeBeside(t, r, cpus("job b", 1))
		if err := os.Remove(filepath.Join(r.Folder, claimName(3))); err != nil {
			t.Fatal(err)
		}
		first.Release()
		soon()
		if !next.ended() {
			t.Fatal("it waits on")
		}
		if want := "wait in the queue: " + claimName(3) + " was removed"; next.err == nil || !strings.HasSuffix(next.err.Error(), want) ||
			fault.Hint(next.err) != "Run it again, and leave the files in "+r.Folder+" alone." || fault.KindOf(next.err) != fault.Denied {
			t.Errorf("kind %v, %v\n%s", fault.KindOf(next.err), next.err, fault.Hint(next.err))
		}
	})
}

func TestAGateThatAnotherHoldsSaysHowToFindIt(t *testing.T) {
	r := roomOf(t, 1)
	synctest.Test(t, func(t *testing.T) {
		if err := r.makeFolder(); err != nil {
			t.Fatal(err)
		}
		gate, err := r.lockFile(gateFile)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock(gate)
		_, err = r.Look()
		if err == nil || !strings.HasSuffix(err.Error(), "open "+filepath.Join(r.Folder, gateFile)+": another process holds it") ||
			fault.Hint(err) != "Look for a stopped drover: ps -C drover -o pid,stat,args." || fault.KindOf(err) != fault.Full {
			t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
		}
	})
}

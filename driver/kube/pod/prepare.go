package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// prepare is the init container: it checks the program, puts it into the pod's volume unless it
// is there already, and makes the folders and files that the agent's container mounts.
func prepare(p paths, digest string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := checkDigest(self, digest); err != nil {
		return err
	}
	program := filepath.Join(p.work, filepath.Base(Program))
	if self != program {
		if err := copyProgram(self, program); err != nil {
			return err
		}
	}
	for _, dir := range []string{p.root() + "/opt/ml", p.root() + "/state", p.state(), p.cache(), p.home(), filepath.Dir(p.notes())} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	tmp := filepath.Join(p.work, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
		return err
	}
	hosts, err := os.ReadFile("/etc/hosts") // Kubernetes has written the pod's own name into it
	if errors.Is(err, fs.ErrNotExist) {
		hosts, err = []byte("127.0.0.1 localhost\n"), nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(p.hosts(), hosts, 0o644)
}

// checkDigest refuses a program that is not the submitter's.
func checkDigest(program, digest string) error {
	if digest == "" {
		return nil
	}
	got, err := digestOf(program)
	if err == nil && got != digest {
		err = fmt.Errorf("the program has the digest %s, and %s was sent", got, digest)
	}
	return err
}

// digestOf is the SHA-256 of a file, in hex.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

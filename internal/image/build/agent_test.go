package build

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/drover-run/drover/fault"
)

func TestAnImageOfTheAgentHasTheProgramOfEachSystem(t *testing.T) {
	at := serve(t, nil)
	dir := t.TempDir()
	programs := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(dir, arch)
		if err := os.WriteFile(file, []byte("the program for "+arch), 0o755); err != nil {
			t.Fatal(err)
		}
		programs["linux/"+arch] = file
	}
	var refs []string
	for range 2 {
		ref, err := Registries{}.PushAgent(t.Context(), "/drover-agent", programs, at+"/me/", "v1.2+dirty")
		if err != nil || !strings.HasPrefix(ref, at+"/me/drover-agent@sha256:") {
			t.Fatal(ref, err)
		}
		refs = append(refs, ref)
	}
	if refs[0] != refs[1] {
		t.Errorf("the same programs are %s and %s", refs[0], refs[1])
	}
	if err := (Registries{}).LookUp(t.Context(), at+"/me/drover-agent:v1.2-dirty"); err != nil {
		t.Error(err)
	}
	copied, err := Registries{}.Copy(t.Context(), at+"/me/drover-agent:v1.2-dirty", at+"/other", "")
	if err != nil || copied != at+"/other/me/drover-agent:v1.2-dirty" {
		t.Fatal(copied, err)
	}
	c, err := name.ParseReference(copied)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := remote.Head(c); err != nil || !strings.HasSuffix(refs[0], d.Digest.String()) {
		t.Errorf("the copy is %v, %v", d, err)
	}
	r, err := name.ParseReference(refs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := remote.Image(r, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		files := listing(t, img)
		content := mutate.Extract(img)
		text, err := io.ReadAll(content)
		content.Close()
		if err != nil || len(files) != 1 || files["drover-agent"] != "0 755" || !strings.Contains(string(text), "the program for "+arch) {
			t.Errorf("%s: %v, %v", arch, files, err)
		}
		if c, err := img.ConfigFile(); err != nil || c.Architecture != arch || c.OS != "linux" {
			t.Errorf("%s: %+v, %v", arch, c, err)
		}
	}
	if _, err := (Registries{}).PushAgent(t.Context(), "/drover-agent", programs, "NOT A REGISTRY", "v1"); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
	if _, err := (Registries{}).PushAgent(t.Context(), "/drover-agent", map[string]string{"linux/amd64": dir + "/none"}, at, "v1"); err == nil || !strings.HasPrefix(err.Error(), "make image of the agent for linux/amd64: ") {
		t.Error(err)
	}
}

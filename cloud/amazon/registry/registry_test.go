package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/fault"
)

// account is a fake registry that this process finds.
func account(t *testing.T) *registrytest.Server {
	t.Helper()
	s := registrytest.New(t)
	for name, value := range s.Environ() {
		t.Setenv(name, value)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return s
}

func TestRegistriesAreKnownByTheirNames(t *testing.T) {
	t.Parallel()
	var r Registries
	for name, want := range map[string]bool{
		registrytest.Host: true, "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn": true, "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com": true, "123456789012.dkr-ecr.eu-west-1.on.aws": true,
		"public.ecr.aws": false, "ghcr.io": false, "12345.dkr.ecr.eu-west-1.amazonaws.com": false, "123456789012.dkr.ecr.eu-west-1.amazonaws.com.example.org": false,
	} {
		if r.Has(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if a, b := Name("123456789012", "eu-west-1"), Name("123456789012", "cn-north-1"); a != registrytest.Host || !r.Has(b) {
		t.Errorf("%s, %s", a, b)
	}
}

func TestALoginIsAskedForOnce(t *testing.T) {
	s := account(t)
	var r Registries
	for range 3 {
		if user, password, err := r.Login(t.Context(), registrytest.Host); err != nil || user != "AWS" || password == "" {
			t.Fatalf("%s %s %v", user, password, err)
		}
	}
	if n := s.Requests("GetAuthorizationToken"); n != 1 {
		t.Errorf("%d tokens", n)
	}
	s.Deny("GetAuthorizationToken")
	if _, _, err := new(Registries).Login(t.Context(), registrytest.Host); fault.KindOf(err) != fault.Denied {
		t.Errorf("%v", err)
	}
}

func TestRepositoriesAreMadeAndDeleted(t *testing.T) {
	s := account(t)
	var r Registries
	for _, name := range []string{"digits/a", "digits/a", "digits/b", "other/a"} {
		if err := r.MakeRepository(t.Context(), registrytest.Host, name); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Repositories(); !slices.Equal(got, []string{"digits/a", "digits/b", "other/a"}) || s.Requests("CreateRepository") != 3 {
		t.Errorf("%s after %d requests", got, s.Requests("CreateRepository"))
	}
	of, err := r.Repositories(t.Context(), registrytest.Host, "digits/")
	if slices.Sort(of); err != nil || !slices.Equal(of, []string{"digits/a", "digits/b"}) {
		t.Errorf("%s, %v", of, err)
	}
	for range 2 {
		if err := r.DeleteRepository(t.Context(), registrytest.Host, "digits/a"); err != nil {
			t.Error(err)
		}
	}
	s.Deny("DescribeRepositories")
	if err := r.MakeRepository(t.Context(), registrytest.Host, "digits/c"); err != nil {
		t.Errorf("an account that may not look: %v", err)
	}
	s.Deny("CreateRepository")
	if err := r.MakeRepository(t.Context(), registrytest.Host, "digits/c"); fault.KindOf(err) != fault.Denied {
		t.Errorf("an account that may not make any: %v", err)
	}
	if got := s.Repositories(); !slices.Equal(got, []string{"digits/b", "other/a"}) {
		t.Errorf("%s", got)
	}
}

func TestWhatAnAccountMayNotDoIsSaid(t *testing.T) {
	s := account(t)
	const host = registrytest.Host
	var r Registries
	if err := r.MakeRepository(t.Context(), host, "digits/a"); err != nil {
		t.Fatal(err)
	}
	login := func() error { _, _, err := new(Registries).Login(t.Context(), host); return err }
	for _, test := range []struct {
		denied string
		do     func() error
		want   string
	}{
		{"GetAuthorizationToken", login, "log in to " + host + ": the server says 400 AccessDeniedException"},
		{"CreateRepository", func() error { return r.MakeRepository(t.Context(), host, "digits/b") }, "make repository digits/b: the server says 400 AccessDeniedException"},
		{"PutLifecyclePolicy", func() error { return r.MakeRepository(t.Context(), host, "digits/b") }, "limit repository digits/b: the server says 400 AccessDeniedException"},
		{"DescribeRepositories", func() error { _, err := r.Repositories(t.Context(), host, "digits/"); return err }, "list repositories: the server says 400 AccessDeniedException"},
		{"DeleteRepository", func() error { return r.DeleteRepository(t.Context(), host, "digits/a") }, "delete repository digits/a: the server says 400 AccessDeniedException"},
		{"", func() error { return r.DeleteRepository(t.Context(), "ghcr.io", "digits/a") }, `"ghcr.io" is no registry of ECR`},
	} {
		s.Deny(test.denied)
		if err := test.do(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.denied, err, test.want)
		}
	}
	s.Refuse("DescribeRepositories", "InvalidParameterException")
	if err := r.MakeRepository(t.Context(), host, "digits/c"); err == nil || !strings.HasPrefix(err.Error(), "look for repository digits/c: the server says 400 InvalidParameterException") {
		t.Errorf("%v", err)
	}
	s.Deny("")
	s.GiveTokens()
	if err := login(); err == nil || err.Error() != "log in to "+host+": ECR gave no token" {
		t.Errorf("%v", err)
	}
	for _, token := range []string{"no base64!", "bm8gY29sb24="} {
		s.GiveTokens(token)
		if err := login(); err == nil || err.Error() != "log in to "+host+": ECR's token is of an unknown form" {
			t.Errorf("%v", err)
		}
	}
}

package job

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

// keys look like what their issuers give, and were never given. They are cut in
// two, so that no scanner takes this file for a leak.
var keys = map[string]string{
	"aws id":       "AKIA" + "QX7RZ2M4NB6VC8LD",
	"aws session":  "ASIA" + "QX7RZ2M4NB6VC8LD",
	"aws secret":   "wJ4lrXUt9nFEM7iK7MDENG2bPx" + "Rf1CYzE8mPLqKe3Y",
	"github":       "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
	"github new":   "github_pat_" + "11ABCDEFG0abcdefghijkl_0123456789",
	"gitlab":       "glpat-" + "x9Yz8wV7uT6sR5qP4oN3",
	"openai":       "sk-" + "proj-9aB8cD7eF6gH5iJ4kL3mN2oP1",
	"anthropic":    "sk-" + "ant-api03-9aB8cD7eF6gH5iJ4kL3m",
	"slack":        "xoxb-" + "123456789012-abcdefABCDEF",
	"google":       "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
	"hugging face": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567",
	"web token":    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.c2lnbmF0dXJlLW9mLWl0",
	"pem":          "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
	"header":       "Authorization: Bearer " + "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
	"address":      "postgres://app:" + "s3cr3tpw" + "@db:5432/x",
	"azure":        "DefaultEndpointsProtocol=https;Account" + "Key=abc123==",
}

func TestKeysAreKnownByTheirLooks(t *testing.T) {
	t.Parallel()
	for name, k := range keys {
		s := Spec{Env: map[string]string{"SETTING": k}}
		err := checkPlainEnv(s)
		if err == nil {
			t.Errorf("%s: taken as plain", name)
			continue
		}
		if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error()+fault.Hint(err), k) || !strings.Contains(err.Error(), "SETTING looks like a secret by its value") {
			t.Errorf("%s: refused with %v", name, err)
		}
		if want := "Use --secret SETTING, which keeps it out of drover, or --plain-env."; fault.Hint(err) != want {
			t.Errorf("%s: the hint is %q", name, fault.Hint(err))
		}
		s.PlainEnv = true
		if err := checkPlainEnv(s); err != nil {
			t.Errorf("%s: refused though it was said to be plain: %v", name, err)
		}
	}
}

// TestRandomKeysAreKnownByTheirLooks: by looks alone some keys cannot be told
// from names; few may be missed.
func TestRandomKeysAreKnownByTheirLooks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	missed := 0
	for range 1000 {
		k := make([]byte, 40)
		for i := range k {
			k[i] = letters[r.IntN(len(letters))]
		}
		if checkPlainEnv(Spec{Env: map[string]string{"SETTING": string(k)}}) == nil {
			missed++
		}
	}
	if missed > 50 {
		t.Errorf("%d of 1000 random keys are taken as plain", missed)
	}
}

func TestNamesSayThatTheyHoldSecrets(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"WANDB_API_KEY", "API_KEY", "OPENAI_KEY", "HF_TOKEN", "TOKEN", "token", "CLIENT_SECRET", "SECRET", "SECRET_KEY", "DB_PASSWORD", "PGPASSWORD",
		"MYSQL_PWD", "DB_PASS", "SMTP_PASSWD", "MY_CREDENTIALS", "CREDENTIAL_JSON", "apikey", "AWS_SECRET_ACCESS_KEY", "NPMTOKEN", "KEY_PASSPHRASE",
	} {
		err := checkPlainEnv(Spec{Env: map[string]string{name: "deadbeef01"}})
		if err == nil || !strings.Contains(err.Error(), name+" looks like a secret by its name") || strings.Contains(err.Error(), "deadbeef01") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsNoSecretPasses(t *testing.T) {
	t.Parallel()
	for _, kv := range []string{
		"KEY_COLUMN=customer_id", "SORT_KEY=created_at", "PUBLIC_KEY=ssh-ed25519", "KEY=customer_id", "TOKENIZERS_PARALLELISM=false", "TOKENIZER=bert-base",
		"MAX_TOKENS=40960", "PAD_TOKEN=[PAD]", "EOS_TOKEN=</s>", "TLS_KEY_FILE=/etc/tls/key.pem", "SSH_KEY_PATH=id_ed25519", "API_KEY=", "API_KEY=true", "API_KEY=none",
		"API_KEY=1234", "API_KEY=<your key>", "API_KEY=xxxxxxxx", "HF_TOKEN=$HF_TOKEN", "HF_TOKEN=${HF_TOKEN}", "GOOGLE_APPLICATION_CREDENTIALS=/home/me/account.json",
		"AWS_SECRET_ACCESS_KEY=test", "SECRET_NAME=prod/db/password", "PASSWORD_MIN_LENGTH=12345", "PWD=/home/me/project", "OLDPWD=/home/me/project", "NUM_PASS=100000",
		"COMMIT=0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "DIGEST=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"RUN=550e8400-e29b-41d4-a716-446655440000", "MODEL=meta-llama/Meta-Llama-3.1-8B-Instruct", "GGUF=Meta-Llama-3-1-8B-Instruct-Q4_K_M-imatrix-v2",
		"CLASS=MyVeryLongClassNameForTheTransformerModel2", "DATA=/data/ImageNet/ILSVRC2012/train-00001-of-01024",
		"URL=https://example.org:8443/path/to/a/file?x=1", "GIT=ssh://git@github.com/a/b.git", "PIP_INDEX_URL=https://pypi.org/simple",
		"LONG=the quick brown Fox jumps over 13 lazy dogs and a half", "SKLEARN=sk-learn-pipeline-with-many-parts", "IMAGE=123456789012.dkr.ecr.us-east-1.amazonaws.com/x:v1",
		"ROLE=arn:aws:iam::123456789012:role/SageMakerExecutionRole", "PATHS=/usr/local/bin:/usr/bin:/bin:/opt/conda3/bin", "OPTS=--xla_gpu_cuda_data_dir=/usr/local/cuda-12.4",
		"HF_HOME=hf_cache", "TIME=2026-11-21T09:00:00.000000Z",
	} {
		name, value, _ := strings.Cut(kv, "=")
		if err := checkPlainEnv(Spec{Env: map[string]string{name: value}}); err != nil {
			t.Errorf("%s: %v", kv, err)
		}
	}
}

func TestSecretsOfASpecAreReferences(t *testing.T) {
	t.Parallel()
	good := Spec{Env: map[string]string{"LR": "0.1"}, Secrets: map[string]string{"A": "env:A", "B": "file:/x"}}
	if err := checkSecrets(good); err != nil {
		t.Error(err)
	}
	many := map[string]string{}
	for i := range maxEnv + 1 {
		many[fmt.Sprint("S", i)] = "env:A"
	}
	for why, s := range map[string]Spec{
		"neither env:NAME nor file:PATH":              {Secrets: map[string]string{"A": "correct-horse"}},
		"the name of an environment variable":         {Secrets: map[string]string{"A": "env:"}},
		"not a valid name of an environment variable": {Secrets: map[string]string{"correct-horse": "env:A"}},
		"not absolute": {Secrets: map[string]string{"A": "file:correct-horse"}},
		"A is both a secret and an environment variable": {Secrets: map[string]string{"A": "env:A"}, Env: map[string]string{"A": "correct-horse"}},
		"513 secrets, at most 512":                       {Secrets: many},
	} {
		err := checkSecrets(s)
		if err == nil || !strings.Contains(err.Error(), why) || fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error()+fault.Hint(err), "correct-horse") {
			t.Errorf("want %q: %v", why, err)
		}
	}
}

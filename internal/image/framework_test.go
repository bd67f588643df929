package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

func TestFrameworksAreResolvedByTheDocumentedRules(t *testing.T) {
	for _, c := range []struct {
		words string
		site  Site
		want  string
	}{
		{"pytorch:2.8.0:py312", Site{GPUs: 1}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312"},
		{"pytorch:2.8.0:py312", Site{}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-cpu-py312"},
		{"pytorch:2.5", Site{Machine: "ml.g5.xlarge"}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.5.1-gpu-py311"},
		{"PyTorch:1.9", Site{Machine: "ml.m5.large"}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.9.1-cpu-py38"},
		{"pytorch::py311", Site{}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.5.1-cpu-py311"},
		{"pytorch:2.1", Site{}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.1.0-cpu-py310"}, // not 2.10
		{"tensorflow:2.19.0", Site{Region: "eu-central-2", Machine: "p3.2xlarge"}, "380420809688.dkr.ecr.eu-central-2.amazonaws.com/tensorflow-training:2.19.0-gpu-py312"},
		{"tensorflow:2.12", Site{Region: "cn-north-1"}, "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/tensorflow-training:2.12.0-cpu-py310"},
		{"huggingface:4.56.2", Site{GPUs: 4}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:2.8.0-transformers4.56.2-gpu-py312-cu129-ubuntu22.04"},
		{"huggingface:4.36", Site{}, "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"},
		{"sklearn:1.2-1", Site{Region: "us-west-2", GPUs: 1}, "246618743249.dkr.ecr.us-west-2.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3"},
		{"xgboost:1.7-1", Site{}, "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"},
		{"xgboost:1.0-1", Site{}, "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.0-1-cpu-py3"},
		{"pytorch:2.8.0:py312", Site{Mirror: "mirror.corp:5000/aws/", Region: "nowhere"}, "mirror.corp:5000/aws/pytorch-training:2.8.0-cpu-py312"},
	} {
		got, err := Framework(c.words, c.site)
		if err != nil || got != c.want {
			t.Errorf("%s at %+v is %s (%v), want %s", c.words, c.site, got, err, c.want)
		}
	}
}

func TestAFrameworkThatIsNotPublishedIsRefusedWithWhatIs(t *testing.T) {
	for _, c := range []struct {
		words, hint string
		site        Site
	}{
		{"pytorhc", "Did you mean pytorch?", Site{}},
		{"keras", "huggingface, pytorch, sklearn, tensorflow, xgboost", Site{}},
		{"pytorch:9.9", "The newest are 2.", Site{}},
		{"pytorch:2.8.0:py27", "2.8.0 for py312", Site{}},
		{"pytorch", "AWS_REGION", Site{Region: "mars-north-1"}},
		{"pytorch", "eu-west-1", Site{Region: "eu-wst-1"}},
		{"pytorch", "--image", Site{Machine: "ml.trn1.2xlarge"}},
	} {
		got, err := Framework(c.words, c.site)
		if got != "" || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%s at %+v is %q, %v with hint %q, want a hint with %q", c.words, c.site, got, err, fault.Hint(err), c.hint)
		}
	}
}

// Every version of every framework has an address in each region it says.
func TestTheTableOfFrameworksIsWhole(t *testing.T) {
	all, err := published()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, versions := range all.Frameworks {
		for _, s := range versions {
			for region := range strings.FieldsSeq(all.Regions[s.Regions]) {
				host, err := all.registryHost(name, s, region)
				account, _, _ := strings.Cut(host, ".")
				if err != nil || len(account) != 12 || strings.Trim(account, "0123456789") != "" {
					t.Errorf("%s %s in %s: %q, %v", name, s.Version, region, host, err)
				}
				seen++
			}
		}
	}
	if seen < 2000 {
		t.Errorf("the table has %d addresses, and had more", seen)
	}
}

func TestTheRegionIsThatOfTheEnvironmentThenOfTheConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := "[default]\nregion = eu-west-1\n[profile other]\noutput=json\n region=eu-west-2 \n[profile none]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env    map[string]string
		config string
		want   string
	}{
		{map[string]string{}, "", ""},
		{map[string]string{"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}, "c", "a"},
		{map[string]string{"AWS_DEFAULT_REGION": "b"}, "c", "b"},
		{map[string]string{"AWS_CONFIG_FILE": file}, "c", "c"},
		{map[string]string{"AWS_CONFIG_FILE": file}, "", "eu-west-1"},
		{map[string]string{"AWS_CONFIG_FILE": file, "AWS_PROFILE": "other"}, "", "eu-west-2"},
		{map[string]string{"AWS_CONFIG_FILE": file, "AWS_PROFILE": "none"}, "", ""},
		{map[string]string{"AWS_CONFIG_FILE": file + ".not", "AWS_PROFILE": "other"}, "", ""},
	} {
		if got := Region(func(name string) string { return c.env[name] }, c.config); got != c.want {
			t.Errorf("with %v and %q in the config the region is %q, want %q", c.env, c.config, got, c.want)
		}
	}
}

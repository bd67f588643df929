// Package registry opens Amazon's registries of container images, ECR, by this machine's account: it gives logins for
// them, and makes and deletes repositories.
//
// It refuses to know what images are for, and how they are moved. A server in the test proves it; ECR was not asked.
package registry

import (
	"context"
	"encoding/base64"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
)

// keeps is the rule by which ECR deletes the oldest images of a repository that drover makes: 30 stay.
const keeps = `{"rules":[{"rulePriority":1,"description":"newest","selection":{"tagStatus":"any","countType":"imageCountMoreThan","countNumber":30},"action":{"type":"expire"}}]}`

// Registries are the registries of this machine's accounts, in all regions. The zero value is ready.
type Registries struct {
	// Open opens the account in a region. Nil: as package amazon does.
	Open func(ctx context.Context, region string) (*amazon.Account, error)

	mu     sync.Mutex
	apis   map[string]api   // by registry
	logins map[string]login // by registry
}

// api sends requests about one registry.
type api struct {
	*ecr.Client
	send amazon.Sender
	id   string // of its account
}

type login struct {
	user, password string
	until          time.Time
}

// form is the form of the registries' names.
var form = regexp.MustCompile(`^([0-9]{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)$`)

// Has says whether a registry is one of ECR, such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com.
func (r *Registries) Has(registry string) bool { return form.MatchString(registry) }

// Name is the registry of an account in a region.
func Name(account, region string) string {
	end := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		end += ".cn"
	}
	return account + ".dkr.ecr." + region + "." + end
}

// open is the client of a registry. It sends nothing.
func (r *Registries) open(ctx context.Context, registry string) (a api, err error) {
	parts := form.FindStringSubmatch(registry)
	if parts == nil {
		return a, fault.New(fault.Bug, "", "%q is no registry of ECR", registry)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.apis[registry]; ok {
		return a, nil
	}
	open := r.Open
	if open == nil {
		open = func(ctx context.Context, region string) (*amazon.Account, error) {
			return amazon.Open(ctx, amazon.Options{Region: region})
		}
	}
	account, err := open(ctx, parts[2])
	if err != nil {
		return a, err
	}
	a = api{ecr.NewFromConfig(account.Config), amazon.Sender{Account: account, Wait: amazon.Patience}, parts[1]}
	if r.apis == nil {
		r.apis, r.logins = map[string]api{}, map[string]login{}
	}
	r.apis[registry] = a
	return a, nil
}

// Login is a user of the registry and its password, which ECR gives for twelve hours.
func (r *Registries) Login(ctx context.Context, registry string) (user, password string, err error) {
	a, err := r.open(ctx, registry)
	if err != nil {
		return "", "", err
	}
	r.mu.Lock()
	known := r.logins[registry]
	r.mu.Unlock()
	if time.Now().Before(known.until) {
		return known.user, known.password, nil
	}
	var out *ecr.GetAuthorizationTokenOutput
	err = a.send.Read(ctx, "log in to "+registry, func(ctx context.Context) (err error) {
		out, err = a.GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
		return err
	})
	if err != nil {
		return "", "", err
	}
	if len(out.AuthorizationData) == 0 {
		return "", "", fault.New(fault.Denied, "", "log in to %s: ECR gave no token", registry)
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.AuthorizationData[0].AuthorizationToken))
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return "", "", fault.New(fault.Denied, "", "log in to %s: ECR's token is of an unknown form", registry)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins[registry] = login{user, password, time.Now().Add(time.Hour)}
	return user, password, nil
}

// MakeRepository makes a repository unless it is there: its tags are never moved, and its newest 30 images are kept. Where this
// account may not look, it says nothing: the registry itself refuses what is pushed.
func (r *Registries) MakeRepository(ctx context.Context, registry, repository string) error {
	a, err := r.open(ctx, registry)
	if err != nil {
		return err
	}
	missing := false
	err = a.send.Read(ctx, "look for repository "+repository, func(ctx context.Context) error {
		_, err := a.DescribeRepositories(ctx, &ecr.DescribeRepositoriesInput{RegistryId: &a.id, RepositoryNames: []string{repository}})
		if missing = amazon.ReadAnswer(err).Code == "RepositoryNotFoundException"; missing {
			return nil
		}
		return err
	})
	if fault.KindOf(err) == fault.Denied || err == nil && !missing {
		return nil
	}
	if err != nil {
		return err
	}
	err = a.send.Read(ctx, "make repository "+repository, func(ctx context.Context) error { // there are never two of a name
		_, err := a.CreateRepository(ctx, &ecr.CreateRepositoryInput{RegistryId: &a.id, RepositoryName: &repository, ImageTagMutability: types.ImageTagMutabilityImmutable,
			Tags: []types.Tag{{Key: aws.String("managed-by"), Value: aws.String("drover")}}})
		if amazon.ReadAnswer(err).Code == "RepositoryAlreadyExistsException" {
			return nil // of a request without an answer, or of another command
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.send.Read(ctx, "limit repository "+repository, func(ctx context.Context) error {
		_, err := a.PutLifecyclePolicy(ctx, &ecr.PutLifecyclePolicyInput{RegistryId: &a.id, RepositoryName: &repository, LifecyclePolicyText: aws.String(keeps)})
		return err
	})
}

// Repositories are those of a registry below a prefix, such as "drover-digits/".
func (r *Registries) Repositories(ctx context.Context, registry, prefix string) (all []string, err error) {
	a, err := r.open(ctx, registry)
	if err != nil {
		return nil, err
	}
	in := &ecr.DescribeRepositoriesInput{RegistryId: &a.id, MaxResults: aws.Int32(1000)}
	for {
		var out *ecr.DescribeRepositoriesOutput
		err := a.send.Read(ctx, "list repositories", func(ctx context.Context) (err error) {
			out, err = a.DescribeRepositories(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, one := range out.Repositories {
			if name := aws.ToString(one.RepositoryName); strings.HasPrefix(name, prefix) {
				all = append(all, name)
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return all, nil
		}
	}
}

// DeleteRepository deletes a repository with its images. One that is not there is deleted.
func (r *Registries) DeleteRepository(ctx context.Context, registry, repository string) error {
	a, err := r.open(ctx, registry)
	if err != nil {
		return err
	}
	return a.send.Read(ctx, "delete repository "+repository, func(ctx context.Context) error {
		_, err := a.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RegistryId: &a.id, RepositoryName: &repository, Force: true})
		if amazon.ReadAnswer(err).Code == "RepositoryNotFoundException" {
			return nil
		}
		return err
	})
}

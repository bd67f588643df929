package build

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// Docker is the daemon that DOCKER_HOST names, or the usual socket's.
type Docker struct {
	cli *client.Client
	at  Registries
}

// patience is for a first answer: a daemon that is there gives it at once, one
// that starts needs seconds.
const patience = 15 * time.Second

// Connect asks the daemon for its version, and speaks that. A fault of kind
// Missing says that none answers.
func Connect(ctx context.Context, at Registries) (*Docker, error) {
	cli, err := client.New(client.FromEnv, client.WithUserAgent("drover"))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Set DOCKER_HOST to unix:///var/run/docker.sock or tcp://HOST:PORT.", "read DOCKER_HOST")
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := cli.Ping(short, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		host := cli.DaemonHost()
		cli.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if why := (*net.OpError)(nil); errors.As(err, &why) {
			err = why.Err // without the client's own sentences around it
		}
		return nil, fault.Wrap(err, fault.Missing, "Start Docker, or set DOCKER_HOST.", "ask docker at %s", host)
	}
	return &Docker{cli, at}, nil
}

// Image is one that drover built, as Docker lists it.
type Image struct {
	Name    string    `json:"name"`
	Project string    `json:"project"`
	Digest  string    `json:"digest"` // of what went into it
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
}

// List are the images drover built, newest first; of one project unless it is "".
func (d *Docker) List(ctx context.Context, project string) ([]Image, error) {
	label := image.LabelProject
	if project != "" {
		label += "=" + project
	}
	got, err := d.cli.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("label", label)})
	if err != nil {
		return nil, fault.Wrap(err, fault.Lost, "", "list images")
	}
	list := []Image{}
	for _, s := range got.Items {
		for _, tag := range s.RepoTags {
			if tag == "<none>:<none>" { // what an older daemon calls one without a name
				continue
			}
			list = append(list, Image{Name: tag, Project: s.Labels[image.LabelProject], Digest: s.Labels[image.LabelDigest], Bytes: s.Size, Created: time.Unix(s.Created, 0).UTC()})
		}
	}
	slices.SortStableFunc(list, func(a, b Image) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// hasImage says whether an image is there and was made of what digest says.
func (d *Docker) hasImage(ctx context.Context, ref, digest string) (bool, error) {
	got, err := d.cli.ImageInspect(ctx, ref)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, daemonFault(ctx, err, "look up image "+ref)
	}
	return got.Config != nil && got.Config.Labels[image.LabelDigest] == digest, nil
}

func absent(err error) bool {
	var e interface{ NotFound() }
	return err != nil && (errors.As(err, &e) || strings.Contains(strings.ToLower(err.Error()), "no such image"))
}

// contentDigest is what stands for the content of an image that is here: its manifest's
// in the registry it came from, which a registry would answer too, or its own
// id. "" when it is not here.
func (d *Docker) contentDigest(ctx context.Context, ref string) string {
	if at := d.pulledDigest(ctx, ref); at != "" {
		_, digest, _ := strings.Cut(at, "@")
		return digest
	}
	got, err := d.cli.ImageInspect(ctx, ref)
	if err != nil {
		return ""
	}
	return got.ID
}

// pulledDigest is REPOSITORY@DIGEST of an image that came from the registry ref names.
func (d *Docker) pulledDigest(ctx context.Context, ref string) string {
	got, err := d.cli.ImageInspect(ctx, ref)
	if err != nil {
		return ""
	}
	want, err := name.ParseReference(ref)
	if err != nil {
		return ""
	}
	for _, at := range got.RepoDigests {
		if r, err := name.NewDigest(at); err == nil && r.Context().Name() == want.Context().Name() {
			return at
		}
	}
	return ""
}

// auth is what Docker hands to a registry for us; "" when we have nothing.
func (d *Docker) auth(ctx context.Context, ref string) string {
	r, err := name.ParseReference(ref)
	if err != nil {
		return ""
	}
	c, ok := d.at.login(ctx, r.Context())
	if !ok {
		return ""
	}
	b, err := json.Marshal(loginFields(c, r.Context().RegistryStr()))
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(b)
}

// loginFields are a login as Docker reads it.
func loginFields(c *authn.AuthConfig, registry string) map[string]string {
	return map[string]string{"username": c.Username, "password": c.Password, "identitytoken": c.IdentityToken, "registrytoken": c.RegistryToken, "serveraddress": registry}
}

func (d *Docker) pullImage(ctx context.Context, ref, platform string, to io.Writer) error {
	o := client.ImagePullOptions{RegistryAuth: d.auth(ctx, ref)}
	if err := setPlatform(&o.Platforms, platform); err != nil {
		return err
	}
	got, err := d.cli.ImagePull(ctx, ref, o)
	if err != nil {
		return daemonFault(ctx, err, "pull image "+ref)
	}
	defer got.Close()
	return follow(ctx, got, to, "pull image "+ref)
}

// pushImage gives an image its name in a registry and sends it there.
func (d *Docker) pushImage(ctx context.Context, from, to string, words io.Writer) error {
	if from != to {
		if _, err := d.cli.ImageTag(ctx, client.ImageTagOptions{Source: from, Target: to}); err != nil {
			return daemonFault(ctx, err, "name image "+to)
		}
	}
	got, err := d.cli.ImagePush(ctx, to, client.ImagePushOptions{RegistryAuth: orEmpty(d.auth(ctx, to))})
	if err != nil {
		return daemonFault(ctx, err, "push image "+to)
	}
	defer got.Close()
	return follow(ctx, got, words, "push image "+to)
}

// orEmpty: a daemon before 28 refuses a push without the header.
func orEmpty(auth string) string {
	if auth == "" {
		return base64.URLEncoding.EncodeToString([]byte("{}"))
	}
	return auth
}

// saveImage writes an image's archive.
func (d *Docker) saveImage(ctx context.Context, ref, file string) error {
	got, err := d.cli.ImageSave(ctx, []string{ref})
	if err != nil {
		return daemonFault(ctx, err, "save image "+ref)
	}
	defer got.Close()
	return whole(file, func(f *os.File) error {
		_, err := io.Copy(f, got)
		return err
	})
}

// loadImage gives an image that was made here to Docker.
func (d *Docker) loadImage(ctx context.Context, img v1.Image, ref string) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return fault.Wrap(err, fault.Bug, "", "load image")
	}
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() { // ends when the daemon has read all, or the reader is closed
		err := tarball.Write(tag, img, w)
		w.CloseWithError(err)
		wrote <- err
	}()
	got, err := d.cli.ImageLoad(ctx, r, client.ImageLoadWithQuiet(true))
	if err == nil {
		err = follow(ctx, got, io.Discard, "load image "+ref)
		got.Close()
	} else {
		err = daemonFault(ctx, err, "load image "+ref)
	}
	r.Close()
	if e := <-wrote; err == nil && e != nil && !errors.Is(e, io.ErrClosedPipe) {
		err = fault.Wrap(e, fault.KindOf(e), fault.MarkedHint(e), "load image %s", ref)
	}
	return err
}

// daemonFault says what the daemon's refusal means for the person.
func daemonFault(ctx context.Context, err error, doing string) error {
	if ctx.Err() != nil {
		return fault.Wrap(context.Cause(ctx), fault.Interrupted, "", "%s", doing)
	}
	text := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	return told(text, 0, doing)
}

// told makes the fault of what Docker says went wrong.
func told(text string, code int, doing string) error {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\n", "; "))
	low := strings.ToLower(text)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(low, p) {
				return true
			}
		}
		return false
	}
	switch {
	case code != 0 || has("returned a non-zero code"):
		f := fault.New(fault.Failed, "Its output is above; correct that line of the Dockerfile.", "%s: %s", doing, text)
		f.Code = fault.ExitUsage
		return f
	case has("no space left"):
		return fault.New(fault.Full, "Make room: `docker system df` shows what Docker keeps.", "%s: %s", doing, text)
	case has("unauthorized", "authentication required", "access denied", "denied:", "no basic auth"):
		return fault.New(fault.Denied, "Check the name, or log in: `docker login REGISTRY`.", "%s: %s", doing, text)
	case has("manifest unknown", "name unknown", "not found: manifest", "no such image", "repository does not exist"):
		return fault.New(fault.Missing, "Check the image's name and tag.", "%s: %s", doing, text)
	case has("dial tcp", "connection refused", "no such host", "i/o timeout", "tls handshake", "connection reset", "cannot connect", "eof"):
		return fault.New(fault.Lost, "Is the network up, and the registry's name right?", "%s: %s", doing, text)
	case has("buildkit", "--mount", "<<"):
		return fault.New(fault.Invalid, "Build it with `docker build -t NAME .`, and name it with `--image NAME`.", "%s: %s", doing, text)
	}
	return fault.New(fault.Invalid, "", "%s: %s", doing, text)
}

// message is one line of what the daemon streams.
type message struct {
	Stream string `json:"stream"`
	Status string `json:"status"`
	ID     string `json:"id"`
	Error  string `json:"error"`
	Detail struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"errorDetail"`
}

// follow copies what the daemon says, and gives its complaint as a fault. Layers'
// progress, many lines a second, is left out: each layer's first word is enough.
func follow(ctx context.Context, r io.Reader, to io.Writer, doing string) error {
	said := map[string]string{}
	for d := json.NewDecoder(r); ; {
		var m message
		if err := d.Decode(&m); err == io.EOF {
			return nil
		} else if err != nil {
			if ctx.Err() != nil {
				return fault.Wrap(context.Cause(ctx), fault.Interrupted, "", "%s", doing)
			}
			return fault.Wrap(err, fault.Lost, "", "%s: docker went away", doing)
		}
		switch {
		case m.Error != "" || m.Detail.Message != "":
			if m.Error == "" {
				m.Error = m.Detail.Message
			}
			return told(m.Error, m.Detail.Code, doing)
		case m.Stream != "":
			io.WriteString(to, plain(m.Stream))
		case m.Status != "" && m.ID != "" && said[m.ID] != m.Status:
			said[m.ID] = m.Status
			fmt.Fprintf(to, "%s: %s\n", m.ID, m.Status)
		case m.Status != "" && m.ID == "":
			fmt.Fprintln(to, m.Status)
		}
	}
}

// plain takes away the red that the builder puts around what a command says on
// stderr: it is no part of the words, and a log shows it as dirt.
func plain(stream string) string {
	if stream == "\x1b[0m" { // its end, behind a line end, comes alone
		return ""
	}
	if rest, red := strings.CutPrefix(stream, "\x1b[91m"); red {
		return strings.TrimSuffix(rest, "\x1b[0m")
	}
	return stream
}

package bucket

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Gateway is a real S3 server, versitygw, with a bucket "facts" on a disk, and what
// counts the requests on their way there.
type Gateway struct {
	Dir    string // each bucket is a folder in it, and each object a file
	server *exec.Cmd
	net    *httptest.Server

	mu    sync.Mutex
	asked Requests
}

// Requests are what a bucket was asked for, by what they cost.
type Requests struct{ Writes, Lists, Reads int }

// Total is how many they are.
func (r Requests) Total() int { return r.Writes + r.Lists + r.Reads }

// Since are those that came after o was counted.
func (r Requests) Since(o Requests) Requests {
	return Requests{r.Writes - o.Writes, r.Lists - o.Lists, r.Reads - o.Reads}
}

// OpenGateway starts program, which is versitygw, and waits until it answers.
func OpenGateway(program, dir string) (*Gateway, error) {
	if err := os.MkdirAll(filepath.Join(dir, "facts"), 0o700); err != nil {
		return nil, err
	}
	free := httptest.NewServer(nil) // a free port
	address := free.Listener.Addr().String()
	free.Close()
	g := &Gateway{Dir: dir, server: exec.Command(program, "--port", address, "posix", dir)}
	g.server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testtest")
	if err := g.server.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // not yet up
		Transport:    &http.Transport{MaxIdleConnsPerHost: 256},
	}
	g.net = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.countRequest(r)
		to.ServeHTTP(w, r)
	}))
	return g, nil
}

func (g *Gateway) Close() {
	g.net.Close()
	_ = g.server.Process.Kill() // gone already is as good
	_ = g.server.Wait()
}

// countRequest notes a request. Nothing is charged for what deletes.
func (g *Gateway) countRequest(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodPut || r.Method == http.MethodPost:
		g.asked.Writes++
	case r.URL.Query().Has("list-type"):
		g.asked.Lists++
	default:
		g.asked.Reads++
	}
}

func (g *Gateway) Counts() Requests {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// Environment is what a drover needs to keep store n there.
func (g *Gateway) Environment(n int) []string {
	return []string{fmt.Sprintf("DROVER_STORE=s3://facts/%d?endpoint=%s", n, g.net.URL), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull}
}

// WaitUntilReady waits until the server answers, which it does with a refusal: nothing is signed.
func (g *Gateway) WaitUntilReady() error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 600 {
		a, err := http.Get(g.net.URL + "/facts")
		if err != nil {
			return err
		}
		if a.Body.Close(); a.StatusCode != http.StatusBadGateway {
			return nil
		}
		<-tick.C
	}
	return fmt.Errorf("start %s: no answer for 30 s", g.server.Path)
}

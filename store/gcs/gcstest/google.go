package gcstest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Google is a fake of the servers that Google gives tokens out by, and of the door
// of a bucket that holds every token to its boundary, as far as store/gcs asks. It
// is strict: a boundary in other words than its reference has is refused. It proves
// what we ask for and what follows from it, not that Google does the same:
// fake-gcs-server looks at no token at all. Fields are set before it is used.
type Google struct {
	Next    http.Handler // the bucket's server, which wants no token
	Refresh string       // the long-lived secret of a person; it gives out their tokens
	May     []string     // accounts that the person may be
	Longest time.Duration
	// Life is that of tokens; 0: an hour. Stubborn gives no narrow ones; Uneven is a
	// bucket without uniform access, where they open nothing; Away answers 503.
	Life                   time.Duration
	Stubborn, Uneven, Away bool

	mu     sync.Mutex
	serial int
	tokens map[string]token
	seen   map[string]int // requests to the bucket, by token
	made   []string       // boundaries, as they were asked for
}

type token struct {
	whose, scope string
	until        time.Time
	rules        []rule // nil: all
}

type rule struct {
	Resource    string   `json:"availableResource"`
	Permissions []string `json:"availablePermissions"`
	Condition   struct {
		Title, Expression string
	} `json:"availabilityCondition"`
}

// Seen are the requests that the bucket has let in, by token.
func (g *Google) Seen() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.seen)
}

// Boundaries are those that were asked for, as JSON, in turn.
func (g *Google) Boundaries() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.made)
}

// Revoke ends all tokens.
func (g *Google) Revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens = nil
}

func (g *Google) tokenLifetime() time.Duration {
	if g.Life == 0 {
		return time.Hour
	}
	return g.Life
}

// mintToken makes a token. The caller holds mu.
func (g *Google) mintToken(t token) string {
	g.serial++
	name := fmt.Sprintf("ya29.%s-%d", t.whose, g.serial)
	if t.rules != nil {
		name += "-narrow"
	}
	if g.tokens == nil {
		g.tokens = map[string]token{}
	}
	g.tokens[name] = t
	return name
}

// tokenOfRequest is the token that a request carries. The caller holds mu.
func (g *Google) tokenOfRequest(text string) (t token, ok bool) {
	t, ok = g.tokens[text]
	return t, ok && time.Now().Before(t.until)
}

func (g *Google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	if g.Away && r.Method == http.MethodPost {
		http.Error(w, "", http.StatusServiceUnavailable)
		return
	}
	switch {
	case host == "oauth2.googleapis.com" && r.URL.Path == "/token":
		g.refreshToken(w, r)
	case host == "sts.googleapis.com" && r.URL.Path == "/v1/token":
		g.exchangeToken(w, r)
	case host == "iamcredentials.googleapis.com":
		g.impersonate(w, r)
	case host == "storage.googleapis.com", strings.HasPrefix(r.URL.Path, "/storage/v1/"), strings.HasPrefix(r.URL.Path, "/upload/storage/v1/"):
		g.checkToken(w, r)
	default:
		http.NotFound(w, r)
	}
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, why, text string) {
	reply(w, status, map[string]any{"error": why, "error_description": text})
}

// refreshToken gives a token for the secret of a person.
func (g *Google) refreshToken(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("grant_type") != "refresh_token" || g.Refresh == "" || r.FormValue("refresh_token") != g.Refresh {
		refuse(w, 400, "invalid_grant", "Bad Request")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := g.mintToken(token{whose: "person", scope: platform, until: time.Now().Add(g.tokenLifetime())})
	reply(w, 200, map[string]any{"access_token": name, "expires_in": int(g.tokenLifetime().Seconds()), "token_type": "Bearer"})
}

const platform = "https://www.googleapis.com/auth/cloud-platform"

// exchangeToken puts a token into a boundary.
func (g *Google) exchangeToken(w http.ResponseWriter, r *http.Request) {
	const exchanging, access = "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:token-type:access_token"
	var options struct {
		Boundary struct {
			Rules []rule `json:"accessBoundaryRules"`
		} `json:"accessBoundary"`
	}
	strict := json.NewDecoder(strings.NewReader(r.FormValue("options")))
	strict.DisallowUnknownFields()
	err := strict.Decode(&options)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made = append(g.made, r.FormValue("options"))
	from, known := g.tokenOfRequest(r.FormValue("subject_token"))
	rules := options.Boundary.Rules
	switch {
	case r.Method != http.MethodPost || r.FormValue("grant_type") != exchanging || r.FormValue("subject_token_type") != access || r.FormValue("requested_token_type") != access:
		refuse(w, 400, "invalid_request", "Not a token exchange.")
	case !known:
		refuse(w, 400, "invalid_grant", "Invalid subject token.")
	case from.scope != platform:
		refuse(w, 400, "invalid_scope", "The subject token has an insufficient scope.")
	case g.Stubborn || from.rules != nil:
		refuse(w, 400, "invalid_request", "The subject token cannot be downscoped.")
	case err != nil || len(rules) == 0 || len(rules) > 10 || slices.ContainsFunc(rules, func(r rule) bool { return r.validate() != nil }):
		refuse(w, 400, "invalid_request", "Invalid access boundary.")
	default:
		answer := map[string]any{"issued_token_type": access, "token_type": "Bearer",
			"access_token": g.mintToken(token{whose: from.whose, scope: from.scope, until: from.until, rules: rules})}
		if from.whose != "person" { // as Google says no end of a person's
			answer["expires_in"] = int(time.Until(from.until).Seconds())
		}
		reply(w, 200, answer)
	}
}

// impersonate gives a token of an account to a caller that may use it.
func (g *Google) impersonate(w http.ResponseWriter, r *http.Request) {
	account, ok := strings.CutPrefix(r.URL.Path, "/v1/projects/-/serviceAccounts/")
	account, ok2 := strings.CutSuffix(account, ":generateAccessToken")
	var asked struct {
		Scope    []string
		Lifetime string
	}
	err := json.NewDecoder(r.Body).Decode(&asked)
	life, err2 := time.ParseDuration(asked.Lifetime)
	g.mu.Lock()
	defer g.mu.Unlock()
	from, known := g.tokenOfRequest(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	no := func(status int, text string) {
		reply(w, status, map[string]any{"error": map[string]any{"code": status, "message": text}})
	}
	switch {
	case !ok || !ok2 || errors.Join(err, err2) != nil || len(asked.Scope) == 0:
		no(400, "Request contains an invalid argument.")
	case !known || from.scope != platform || from.rules != nil:
		no(401, "Request had invalid authentication credentials.")
	case !slices.Contains(g.May, account):
		no(403, "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).")
	case life > max(g.Longest, time.Hour):
		no(400, "The token lifetime is longer than allowed by constraints/iam.allowServiceAccountCredentialLifetimeExtension.")
	default:
		until := time.Now().Add(life)
		name := g.mintToken(token{whose: account, scope: asked.Scope[0], until: until})
		reply(w, 200, map[string]any{"accessToken": name, "expireTime": until.UTC().Format(time.RFC3339)})
	}
}

// roles are what they may do to objects.
var roles = map[string][]string{
	"inRole:roles/storage.objectViewer":  {"get", "list"},
	"inRole:roles/storage.objectCreator": {"create"},
	"inRole:roles/storage.objectUser":    {"get", "list", "create", "delete", "update"},
}

// term is one of those that a boundary is made of.
var term = regexp.MustCompile(`^(resource\.name|api\.getAttribute\("storage\.googleapis\.com/objectListPrefix", ""\))\.startsWith\("([^"\\]+)"\)$`)

func (r rule) validate() error {
	if !strings.HasPrefix(r.Resource, "//storage.googleapis.com/projects/_/buckets/") || len(r.Permissions) == 0 {
		return errors.New("no bucket")
	}
	for _, p := range r.Permissions {
		if roles[p] == nil {
			return fmt.Errorf("no role %s", p)
		}
	}
	terms := strings.Split(r.Condition.Expression, " || ")
	if len(terms) > 13 {
		return errors.New("more than 12 operators")
	}
	for _, t := range terms {
		if r.Condition.Expression != "" && !term.MatchString(t) {
			return fmt.Errorf("unknown words: %s", t)
		}
	}
	return nil
}

// allowsName says whether to do that to the object name, or to list what begins so.
func (r rule) allowsName(bucket, do, name string) bool {
	may := r.Resource == "//storage.googleapis.com/projects/_/buckets/"+bucket &&
		slices.ContainsFunc(r.Permissions, func(p string) bool { return slices.Contains(roles[p], do) })
	if !may || r.Condition.Expression == "" {
		return may
	}
	for t := range strings.SplitSeq(r.Condition.Expression, " || ") {
		m := term.FindStringSubmatch(t)
		named, what := m[1] == "resource.name", "projects/_/buckets/"+bucket+"/objects/"+name
		if do == "list" { // its resource is the bucket
			what = name
			named = !named
		}
		if named && strings.HasPrefix(what, m[2]) {
			return true
		}
	}
	return false
}

// checkToken lets requests through that their token may make.
func (g *Google) checkToken(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("upload_id") != "" {
		g.Next.ServeHTTP(w, r)
		return
	}
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	t, known := g.tokenOfRequest(name)
	g.mu.Unlock()
	no := func(status int, reason, text string) {
		reply(w, status, map[string]any{"error": map[string]any{"code": status, "message": text,
			"errors": []any{map[string]any{"message": text, "domain": "global", "reason": reason}}}})
	}
	if !known {
		no(401, "authError", "Invalid Credentials")
		return
	}
	bucket, object, wants := g.wantedRights(r)
	for _, do := range wants {
		name := object
		if do == "know" { // only a caller that may list all learns whether there is such an object
			do, name = "list", ""
		}
		if t.rules == nil || !g.Uneven && slices.ContainsFunc(t.rules, func(r rule) bool { return r.allowsName(bucket, do, name) }) {
			continue
		}
		no(403, "forbidden", t.whose+" does not have storage.objects."+do+" access to the Google Cloud Storage object. Permission 'storage.objects."+do+"' denied on resource (or it may not exist).")
		return
	}
	g.mu.Lock()
	if g.seen == nil {
		g.seen = map[string]int{}
	}
	g.seen[name]++
	g.mu.Unlock()
	g.Next.ServeHTTP(w, r)
}

// wantedRights says what a request does to which object. A request that it does not know is allowed to no token.
func (g *Google) wantedRights(r *http.Request) (bucket, object string, wants []string) {
	rest, up := strings.CutPrefix(r.URL.EscapedPath(), "/upload")
	rest = strings.TrimPrefix(rest, "/storage/v1/b/")
	bucket, rest, _ = strings.Cut(rest, "/o")
	object, _ = url.PathUnescape(strings.TrimPrefix(rest, "/"))
	switch {
	case up && r.Method == http.MethodPost:
		object = described(r)
		wants = []string{"create"}
		if g.objectExists(bucket, object) {
			wants = append(wants, "delete")
		}
	case object == "" && r.Method == http.MethodGet:
		object, wants = r.URL.Query().Get("prefix"), []string{"list"}
	case object != "" && r.Method == http.MethodGet:
		wants = []string{"get"}
		if !g.objectExists(bucket, object) {
			wants = append(wants, "know")
		}
	case object != "" && r.Method == http.MethodDelete:
		wants = []string{"delete"}
	default:
		wants = []string{"setIamPolicy"}
	}
	return bucket, object, wants
}

// described is the name of an object that is about to come.
func described(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "multipart/related" {
		if p, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).NextRawPart(); err == nil {
			body, _ = io.ReadAll(p)
		}
	}
	var d struct{ Name string }
	_ = json.Unmarshal(body, &d)
	return d.Name
}

func (g *Google) objectExists(bucket, object string) bool {
	r := httptest.NewRequest(http.MethodGet, "/storage/v1/b/"+bucket+"/o/"+url.PathEscape(object)+"?alt=media", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	g.Next.ServeHTTP(w, r)
	return w.Code < 300
}

// Proxy is a proxy that gives its clients g for all of Google, by a Certificate that
// they trust. It ends with the test.
func (g *Google) Proxy(t *testing.T, cert tls.Certificate) (proxy string) {
	t.Helper()
	came := &arrivals{conns: make(chan net.Conn), over: make(chan struct{})}
	inside := &http.Server{Handler: g}
	served := make(chan struct{})
	go func() { // until Close
		defer close(served)
		_ = inside.Serve(came)
	}()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n") // a client that has gone notices
		came.addConnection(tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}}))
	}))
	t.Cleanup(func() {
		front.Close()
		_ = inside.Close()
		<-served
	})
	return front.URL
}

// arrivals is a listener for connections that came otherwise.
type arrivals struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (a *arrivals) addConnection(c net.Conn) {
	select {
	case a.conns <- c:
	case <-a.over:
		c.Close()
	}
}

func (a *arrivals) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.over:
		return nil, net.ErrClosed
	}
}

func (a *arrivals) Close() error {
	a.once.Do(func() { close(a.over) })
	return nil
}

func (a *arrivals) Addr() net.Addr { return &net.TCPAddr{} }

// Certificate is one for all of Google's names and for other addresses, which only
// the file's readers trust (SSL_CERT_FILE).
func Certificate(t *testing.T, addresses ...net.IP) (c tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a fake of Google"}, DNSNames: []string{"*.googleapis.com"}, IPAddresses: addresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// SignIn writes a person's credentials, as gcloud does, and gives the file.
func (g *Google) SignIn(t *testing.T) (file string) {
	t.Helper()
	text, err := json.Marshal(map[string]string{"type": "authorized_user", "client_id": "id", "client_secret": "of-the-program", "refresh_token": g.Refresh})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "adc.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

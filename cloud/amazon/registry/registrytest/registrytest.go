// Package registrytest is a fake of ECR: its API, the registry itself, which takes only the logins that the API gives, and
// a proxy by which the registry is found under its own name. Nothing is claimed of ECR.
package registrytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// The registry's account, and its name.
const (
	Account = "123456789012"
	Host    = Account + ".dkr.ecr.eu-west-1.amazonaws.com"
)

// Service begins the names of the API's operations in requests.
const Service = "AmazonEC2ContainerRegistry_V20150921."

// password is what the API gives with its logins.
const password = "ecr-password"

// Server is a registry of ECR.
type Server struct {
	environ map[string]string

	mu           sync.Mutex
	repositories map[string]bool // that have a lifecycle policy
	requests     map[string]int
	refused      string   // an operation
	code         string   // why
	tokens       []string // that the API gives
}

// New starts a registry without repositories; it ends with the test.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{repositories: map[string]bool{}, requests: map[string]int{}, tokens: []string{base64.StdEncoding.EncodeToString([]byte("AWS:" + password))}}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveImages(w, r, images) }))
	certificate, authority := newCertificate(t)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	front.StartTLS()
	t.Cleanup(front.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { connect(w, r, front.Listener.Addr().String()) }))
	t.Cleanup(proxy.Close)
	api := httptest.NewServer(s)
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, authority, 0o644); err != nil {
		t.Fatal(err)
	}
	s.environ = map[string]string{"AWS_ENDPOINT_URL_ECR": api.URL, "HTTPS_PROXY": proxy.URL, "SSL_CERT_FILE": file}
	return s
}

// Environ are the variables with which a process finds it.
func (s *Server) Environ() map[string]string { return s.environ }

// Deny has the API refuse an operation, such as CreateRepository, to this user; "": none.
func (s *Server) Deny(operation string) { s.Refuse(operation, "AccessDeniedException") }

// Refuse has it refuse an operation for another reason.
func (s *Server) Refuse(operation, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.code = operation, code
}

// GiveTokens has the API give other tokens than those that open the registry.
func (s *Server) GiveTokens(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = tokens
}

// Repositories are the names of the repositories there are. One without a lifecycle policy has a star behind its name.
func (s *Server) Repositories() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, limited := range s.repositories {
		if !limited {
			name += "*"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Requests is how often the API was asked for an operation.
func (s *Server) Requests(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[operation]
}

// serveImages serves the registry: to those with a login, and in repositories that there are.
func (s *Server) serveImages(w http.ResponseWriter, r *http.Request, images http.Handler) {
	user, given, _ := r.BasicAuth()
	path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	path, _, _ = strings.Cut(path, "/blobs/")
	s.mu.Lock()
	_, there := s.repositories[path]
	s.mu.Unlock()
	switch {
	case user != "AWS" || given != password:
		w.Header().Set("WWW-Authenticate", `Basic realm="https://`+Host+`/",service="ecr.amazonaws.com"`)
		http.Error(w, "Not Authorized", http.StatusUnauthorized)
	case path != "" && !there:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"NAME_UNKNOWN","message":"The repository with name '`+path+`' does not exist in the registry with id '`+Account+`'"}]}`)
	default:
		images.ServeHTTP(w, r)
	}
}

// ServeHTTP answers the operations that package registry asks for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), Service)
	var in struct {
		RegistryID, RepositoryName, LifecyclePolicyText, ImageTagMutability string
		RepositoryNames                                                     []string
		Force                                                               bool
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // a request without a body asks for nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[operation]++
	fail := func(status int, code, words string) {
		w.Header().Set("X-Amzn-ErrorType", code)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": code, "message": words})
	}
	_, there := s.repositories[in.RepositoryName]
	answer := map[string]any{}
	switch {
	case operation == s.refused:
		fail(http.StatusBadRequest, s.code, "User: arn:aws:iam::"+Account+":user/ann is not authorized to perform: ecr:"+operation)
		return
	case operation == "GetAuthorizationToken":
		all := []any{}
		for _, token := range s.tokens {
			all = append(all, map[string]any{"authorizationToken": token, "proxyEndpoint": "https://" + Host})
		}
		answer["authorizationData"] = all
	case operation == "DescribeRepositories":
		var found []any
		for name := range s.repositories {
			if len(in.RepositoryNames) == 0 || slices.Contains(in.RepositoryNames, name) {
				found = append(found, map[string]any{"repositoryName": name})
			}
		}
		if len(in.RepositoryNames) > len(found) {
			fail(http.StatusBadRequest, "RepositoryNotFoundException", "The repository with name '"+in.RepositoryNames[0]+"' does not exist in the registry with id '"+Account+"'")
			return
		}
		answer["repositories"] = found
	case operation == "CreateRepository" && there:
		fail(http.StatusBadRequest, "RepositoryAlreadyExistsException", "The repository with name '"+in.RepositoryName+"' already exists in the registry with id '"+Account+"'")
		return
	case operation == "CreateRepository" && in.ImageTagMutability == "IMMUTABLE":
		s.repositories[in.RepositoryName] = false
	case operation == "PutLifecyclePolicy" && there && json.Valid([]byte(in.LifecyclePolicyText)):
		s.repositories[in.RepositoryName] = true
	case operation == "DeleteRepository" && there && in.Force:
		delete(s.repositories, in.RepositoryName)
	default:
		fail(http.StatusBadRequest, "RepositoryNotFoundException", "The repository with name '"+in.RepositoryName+"' does not exist in the registry with id '"+Account+"'")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(answer) // the client sees a short answer
}

// connect leads a connection to the registry's name to an address.
func connect(w http.ResponseWriter, r *http.Request, address string) {
	if r.Method != http.MethodConnect || r.Host != Host+":443" {
		http.Error(w, "only "+Host+" is here", http.StatusForbidden)
		return
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	from, sent, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_, err = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
	}
	if err != nil {
		to.Close()
		return
	}
	go func() {
		_, _ = io.Copy(to, sent) // what was read already comes first
		to.Close()
	}()
	go func() {
		_, _ = io.Copy(from, to)
		from.Close()
	}()
}

// newCertificate is a certificate for the registry's name, and itself as the authority to trust.
func newCertificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: Host}, DNSNames: []string{Host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

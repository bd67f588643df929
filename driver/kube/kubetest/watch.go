package kubetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"
)

// versionOf is the version of a list, by what is in it: this fake changes objects in place.
func versionOf(items []Object) string {
	text, err := json.Marshal(items)
	if err != nil {
		panic(err) // they came from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// watch tells a client when a list is not what it was, until the client or the server goes. A real
// API server sends each object that has changed; this one says only that something has.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, a address) {
	q := r.URL.Query()
	seen := q.Get("resourceVersion")
	for sent := json.NewEncoder(w); ; {
		s.mu.Lock()
		o, _ := s.list(a, q.Get("labelSelector"), "", "")
		closed, expired := s.closed, s.knobs.expired
		s.knobs.expired = false
		s.mu.Unlock()
		version := text(o, "metadata", "resourceVersion")
		event := Object{"type": "MODIFIED", "object": Object{"metadata": Object{"resourceVersion": version}}}
		switch {
		case closed:
			return
		case expired:
			event = Object{"type": "ERROR", "object": Object{"kind": "Status", "code": http.StatusGone, "reason": "Expired", "message": "too old resource version"}}
		case version == seen:
			event = nil
		}
		if event != nil {
			if seen = version; sent.Encode(event) != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Expire ends the watches that there are, or the next one: the server does not remember what has
// changed for so long.
func (s *Server) Expire() { s.turn(func(k *knobs) { k.expired = true }) }

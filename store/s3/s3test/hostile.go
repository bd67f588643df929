package s3test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// Evils are what may befall a request. Each chance is per request, from 0 to 1,
// and at most one thing befalls it.
type Evils struct {
	Refuse   float64 // not done, 503 without a body, as load balancers do
	SlowDown float64 // not done, 503 SlowDown
	Fail     float64 // done or not, 500 InternalError
	Lose     float64 // not done, the connection is reset
	LoseLate float64 // done, and the connection is reset instead of an answer
	Truncate float64 // done, the answer is cut
	Conflict float64 // a conditional write: not done, 409
	Flip     float64 // one bit of the body that was sent is another
	Stutter  float64 // the answer comes in small pieces
	Lag      float64 // the answer comes late
}

// lag is longer than a server takes, and shorter than a client waits.
const lag = 2 * time.Second

// Hostile is the net and the proxies between a client and Next.
type Hostile struct {
	Evils
	Next http.Handler
	Rand func(n int) int // uniform in [0, n); called by one goroutine at a time

	mu   sync.Mutex
	met  map[string]int
	calm bool
	cut  chan struct{} // closed when the net is back; nil: it is there
	mute bool          // while it is not, nothing is answered at all
}

// Cut takes the net away until Mend. A mute net is one with a dead router in it:
// no side receives anything, until one gives up. Otherwise connections are reset.
// What has arrived before is done, and answered.
func (h *Hostile) Cut(mute bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut == nil {
		h.cut = make(chan struct{})
	}
	h.mute = mute
}

// Mend ends a Cut. What was asked in it is lost.
func (h *Hostile) Mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut != nil {
		close(h.cut)
		h.cut = nil
	}
}

// wasCutOff says whether r found no net, once its client may know that.
func (h *Hostile) wasCutOff(r *http.Request) bool {
	h.mu.Lock()
	cut, mute := h.cut, h.mute
	if cut != nil {
		h.countFault("Cut")
	}
	h.mu.Unlock()
	if cut != nil && mute {
		_, _ = io.Copy(io.Discard, r.Body) // until it is read, the server does not see that a client has gone
		select {
		case <-cut:
		case <-r.Context().Done():
		}
	}
	return cut != nil
}

// countFault notes what happened. Its caller holds mu.
func (h *Hostile) countFault(what string) {
	if h.met == nil {
		h.met = map[string]int{}
	}
	h.met[what]++
}

// Calm ends it.
func (h *Hostile) Calm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calm = true
}

// Met says how often each thing has happened, by the name of its field.
func (h *Hostile) Met() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	met := map[string]int{}
	for name, n := range h.met {
		met[name] = n
	}
	return met
}

// drawOutcome draws what befalls a request.
func (h *Hostile) drawOutcome(r *http.Request) (what string, half bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calm {
		return "", false
	}
	const fine = 1 << 20
	draw := float64(h.Rand(fine)) / fine
	half = h.Rand(2) == 0
	for _, f := range []struct {
		name   string
		chance float64
	}{{"Refuse", h.Refuse}, {"SlowDown", h.SlowDown}, {"Fail", h.Fail}, {"Lose", h.Lose}, {"LoseLate", h.LoseLate},
		{"Truncate", h.Truncate}, {"Conflict", h.Conflict}, {"Flip", h.Flip}, {"Stutter", h.Stutter}, {"Lag", h.Lag}} {
		if draw -= f.chance; draw >= 0 {
			continue
		}
		if f.name == "Conflict" && r.Header.Get("If-None-Match") == "" || f.name == "Flip" && r.ContentLength <= 0 {
			return "", false
		}
		h.countFault(f.name)
		return f.name, half
	}
	return "", false
}

// ServeHTTP passes r on, or not, and what comes back, or not.
func (h *Hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.wasCutOff(r) {
		reset(w)
		return
	}
	what, half := h.drawOutcome(r)
	switch what {
	case "":
		h.Next.ServeHTTP(w, r)
	case "Refuse":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "SlowDown":
		Refuse(w, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
	case "Conflict":
		Refuse(w, http.StatusConflict, "ConditionalRequestConflict", "A conflicting conditional operation is currently in progress.")
	case "Lose":
		reset(w)
	case "Fail":
		if half {
			h.runBehind(r)
		}
		Refuse(w, http.StatusInternalServerError, "InternalError", "We encountered an internal error. Please try again.")
	case "LoseLate":
		h.runBehind(r)
		reset(w)
	case "Flip":
		r.Body = io.NopCloser(&flipped{Reader: r.Body})
		h.Next.ServeHTTP(w, r)
	case "Truncate":
		h.truncateBody(w, h.runBehind(r), half)
	case "Stutter":
		stutter(w, h.runBehind(r))
	case "Lag":
		answer := h.runBehind(r)
		select {
		case <-time.After(lag):
		case <-r.Context().Done():
		}
		head(w, answer)
		_, _ = w.Write(answer.Body.Bytes())
	}
}

// runBehind has r done and keeps the answer.
func (h *Hostile) runBehind(r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.Next.ServeHTTP(answer, r)
	return answer
}

func head(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if answer.Code != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	}
	w.WriteHeader(answer.Code)
}

// truncateBody sends less than the answer said it would be.
func (h *Hostile) truncateBody(w http.ResponseWriter, answer *httptest.ResponseRecorder, half bool) {
	keep := 0
	if half {
		keep = answer.Body.Len() / 2
	}
	head(w, answer)
	_, _ = w.Write(answer.Body.Bytes()[:keep])
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	reset(w)
}

// stutter sends an answer in very many small pieces.
func stutter(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	head(w, answer)
	body := answer.Body.Bytes()
	step := max(1, len(body)/100)
	for at := 0; at < len(body); at += step {
		_, _ = w.Write(body[at:min(at+step, len(body))])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// reset ends the connection as a peer that has gone does.
func reset(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// flipped is a body with one bit the other way round.
type flipped struct {
	io.Reader
	done bool
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if n > 0 && !f.done {
		p[0] ^= 1
		f.done = true
	}
	return n, err
}

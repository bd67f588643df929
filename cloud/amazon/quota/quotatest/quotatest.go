// Package quotatest is a fake of Amazon's Service Quotas: the operation that package quota asks for.
package quotatest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Quotas are those of one account in one region.
type Quotas struct {
	service func(name string) string // the service that a quota is of

	mu     sync.Mutex
	values map[string]float64 // by name
}

// New makes an account with quotas by their names; service says of which service each is.
func New(values map[string]float64, service func(name string) string) *Quotas {
	q := &Quotas{service: service, values: map[string]float64{}}
	maps.Copy(q.values, values)
	return q
}

// Set sets a quota, by its name.
func (q *Quotas) Set(name string, value float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.values[name] = value
}

// Asks says whether a request is one of Service Quotas.
func Asks(r *http.Request) bool {
	return strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListServiceQuotas")
}

// Answer lists quotas, on the second of two pages.
func (q *Quotas) Answer(w http.ResponseWriter, body []byte, denied bool) {
	if denied {
		fail(w, "AccessDeniedException", "not authorized to perform: servicequotas:ListServiceQuotas")
		return
	}
	var in struct {
		ServiceCode, NextToken string
		MaxResults             int
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		fail(w, "IllegalArgumentException", err.Error())
		return
	}
	type object = map[string]any
	all := []object{}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if q.service(name) == in.ServiceCode {
			all = append(all, object{"ServiceCode": in.ServiceCode, "QuotaCode": "L-34B43A08", "QuotaName": name, "Value": q.values[name]})
		}
	}
	out := object{"Quotas": all}
	if in.NextToken == "" { // an empty page before the others
		out = object{"Quotas": []object{}, "NextToken": "more"}
	}
	_ = json.NewEncoder(w).Encode(out) // the client sees a short answer
}

func fail(w http.ResponseWriter, code, message string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message}) // the client sees a short answer
}

package batchtest

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Quotas is the fake of Service Quotas in the account of a Server.
type Quotas struct {
	mu  sync.Mutex
	all map[string]float64 // of machines, by their names
}

// newQuotas are those of an account that has used much.
func newQuotas() *Quotas {
	return &Quotas{all: map[string]float64{"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": 6400, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": 6400,
		"All G and VT Spot Instance Requests": 640, "Running On-Demand G and VT instances": 640}}
}

// Set sets a quota, by its name.
func (q *Quotas) Set(name string, value float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all[name] = value
}

// answer lists quotas, on the second of two pages.
func (q *Quotas) answer(w http.ResponseWriter, body []byte, denied bool) {
	if denied {
		fail(w, http.StatusBadRequest, "AccessDeniedException", "not authorized to perform: servicequotas:ListServiceQuotas")
		return
	}
	var in struct {
		ServiceCode, NextToken string
		MaxResults             int
	}
	if err := decode(body, &in); err != nil {
		fail(w, http.StatusBadRequest, "IllegalArgumentException", err.Error())
		return
	}
	all := []object{}
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, value := range q.all {
		if (in.ServiceCode == "fargate") == (name == "Fargate On-Demand vCPU resource count" || name == "Fargate Spot vCPU resource count") {
			all = append(all, object{"ServiceCode": in.ServiceCode, "QuotaCode": "L-34B43A08", "QuotaName": name, "Value": value})
		}
	}
	if in.NextToken == "" { // an empty page before the others
		_ = json.NewEncoder(w).Encode(object{"Quotas": []object{}, "NextToken": "more"}) // the client sees a short answer
		return
	}
	_ = json.NewEncoder(w).Encode(object{"Quotas": all}) // likewise
}

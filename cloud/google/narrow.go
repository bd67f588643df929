package google

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/downscope"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
)

// How long an account's token is requested for. Agents work with no command attached, and
// then nothing renews it; Google gives an hour at most unless the account's organisation has
// allowed more. The caller's own token lasts an hour, and so do the tokens made from it.
const accountLife, plainLife = 12 * time.Hour, time.Hour

// Impersonate asks for a token of an account that the owner of root may act as, for as long as
// Google allows. root is of the scope Platform.
func (s Source) Impersonate(ctx context.Context, root Token, account string) (t Token, err error) {
	client, seen, done := s.client(ctx)
	defer done()
	for _, life := range []time.Duration{accountLife, plainLife} {
		t, err = impersonate(client, root, account, life)
		if seen.status.Load() != http.StatusBadRequest { // a longer life than it allows
			break
		}
	}
	if err != nil {
		return t, seen.refused("be "+account, err, "Let its owner run gcloud iam service-accounts add-iam-policy-binding "+account+
			" --member=user:YOU --role=roles/iam.serviceAccountTokenCreator.")
	}
	return t, nil
}

// impersonate asks once for a token of account that lasts for a life.
func impersonate(client context.Context, root Token, account string, life time.Duration) (t Token, err error) {
	body, err := json.Marshal(map[string]any{"scope": []string{Platform}, "lifetime": fmt.Sprintf("%.0fs", life.Seconds())})
	if err != nil {
		return t, err
	}
	req, err := http.NewRequestWithContext(client, http.MethodPost,
		"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"+account+":generateAccessToken", bytes.NewReader(body))
	if err != nil {
		return t, err
	}
	req.Header.Set("Content-Type", "application/json")
	root.Sign(req.Header, "")
	resp, err := oauth2.NewClient(client, nil).Do(req)
	if err != nil {
		return t, Bare(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return t, errors.New(ReadRefusal(resp).Message)
	}
	var said struct {
		AccessToken string
		ExpireTime  time.Time
	}
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&said) != nil || said.AccessToken == "" || said.ExpireTime.IsZero() {
		return t, errors.New("the server has answered, and given no token") // an error of JSON would quote it
	}
	return Token{Value: said.AccessToken, Expires: said.ExpireTime}, nil
}

// ErrNoToken: the server has answered a request to narrow a token without a token.
var ErrNoToken = errors.New("the server has answered, and given none")

// Narrow asks for a token with those rights of root that are inside a boundary. root is of the
// scope Platform. hint says what else to do where such a token cannot be narrowed.
func (s Source) Narrow(ctx context.Context, root Token, rules []downscope.AccessBoundaryRule, hint string) (Token, error) {
	client, seen, done := s.client(ctx)
	defer done()
	from, err := downscope.NewTokenSource(client, downscope.DownscopingConfig{Rules: rules,
		RootSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: root.Value, Expiry: root.Expires})})
	if err != nil {
		return Token{}, fault.Wrap(err, fault.Bug, "", "narrow the token")
	}
	t, err := from.Token()
	switch {
	case err != nil:
		return Token{}, seen.refused("narrow the token", whyNot(err), hint)
	case t.AccessToken == "":
		return Token{}, fmt.Errorf("narrow the token: %w", ErrNoToken)
	case t.Expiry.IsZero():
		clock := s.Clock
		if clock == nil {
			clock = cloud.System
		}
		t.Expiry = clock.Now().Add(plainLife / 2) // the server has not said, and no token is older than that
	}
	return Token{Value: t.AccessToken, Expires: t.Expiry}, nil
}

// whyNot is the server's own reason in an error of downscope's.
func whyNot(err error) error {
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_, body, _ := strings.Cut(err.Error(), "Server responded: ")
	if json.Unmarshal([]byte(body), &said) != nil || said.Error == "" {
		return err
	}
	return errors.New(strings.TrimSuffix(said.Error+": "+said.Description, ": "))
}

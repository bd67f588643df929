// Package house proves the house: that the code agrees with the picture in
// ARCHITECTURE.md and with the rules that a machine can check.
//
// It holds tests alone, so it is no room, and nothing links it. It refuses to know
// what the code does. Each rule is proved to fire by a broken house in
// broken_test.go: a rule that finds nothing anywhere is not a rule.
package house_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rules are the promises of the house. Each answers with the sentences a
// developer reads when one is broken.
var rules = []struct {
	name  string
	check func(*house) []string
}{
	{"every package loads", everyPackageLoads},
	{"arrows point down", arrowsPointDown},
	{"every room is drawn", everyRoomIsDrawn},
	{"only promises are public", onlyPromisesArePublic},
	{"public packages name no internal type", publicPackagesNameNoInternalType},
	{"the ground stands on the standard library", groundStandsOnTheStandardLibrary},
	{"only cmd/drover picks", onlyTheMainPicks},
	{"the SDK links no cloud", theSDKLinksNoCloud},
	{"no templates are linked", noTemplatesAreLinked},
	{"every package introduces itself", everyPackageIntroducesItself},
	{"packages have plain names", packagesHavePlainNames},
	{"go has the fixes we rely on", goHasTheFixesWeRelyOn},
	{"every dependency is explained", everyDependencyIsExplained},
	{"files stay short", filesStayShort},
	{"nothing happens at init", nothingHappensAtInit},
	{"interfaces stay small", interfacesStaySmall},
	{"receivers stay small", receiversStaySmall},
	{"packages stay small", packagesStaySmall},
	{"comments have nouns as subjects", commentsHaveNouns},
	{"identifiers are words of the field", identifiersAreOfTheField},
	{"contexts carry no values", contextsCarryNoValues},
	{"nobody opens a port", nobodyOpensAPort},
	{"nobody asks for a target by name", nobodyAsksForATargetByName},
	{"errors begin with the verb", errorsBeginWithTheVerb},
	{"nobody sleeps in tests", nobodySleepsInTests},
	{"cited rules are explained", citedRulesAreExplained},
	{"rules are cited", rulesAreCited},
	{"the protocol names what is there", theProtocolNamesWhatIsThere},
	{"the protocol names every field", theProtocolNamesEveryField},
}

func TestTheHouseStands(t *testing.T) {
	t.Parallel()
	h, err := load("../..", "linux", "darwin")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, sentence := range rule.check(h) {
				t.Error(sentence)
			}
		})
	}
	for _, f := range h.files {
		if f.lines > thinkLines {
			t.Logf("%s has %d lines: above %d, think", f.path, f.lines, thinkLines)
		}
	}
}

func TestThePictureIsReadAsItIsDrawn(t *testing.T) {
	t.Parallel()
	got, err := parsePicture("before\n```house\n" +
		"2  cmd/drover                   picks drivers  and more; the only main\n" +
		"       |\n" +
		"1  driver  host       bundle    a place for agents | what is shipped there\n" +
		"   contract                     what user code sees\n" +
		"       |          |\n" +
		"0  job                fault     nouns and their rules\n" +
		"```\nafter")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"cmd/drover": 2, "driver": 1, "host": 1, "bundle": 1, "contract": 1, "job": 0, "fault": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the rooms differ (-want +got):\n%s", diff)
	}
}

func TestABadPictureIsRefused(t *testing.T) {
	t.Parallel()
	for name, drawing := range map[string]string{
		"no block":             "nothing here",
		"a block left open":    "```house\n0  job\n",
		"a room drawn twice":   "```house\n1  job  store\n0  job\n```",
		"a floor by name":      "```house\nground  job\n```",
		"a room in the clouds": "```house\n   job  fault\n```",
	} {
		if floors, err := parsePicture(drawing); err == nil {
			t.Errorf("%s: read as %v, want a refusal", name, floors)
		}
	}
}

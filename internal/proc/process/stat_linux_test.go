package process

import "testing"

func TestAStatThatCannotBeReadIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"7 sleep S":     `read stat: "7 sleep S": no name`,
		"7 (sleep) S 1": `read stat: "7 (sleep) S 1": too short`,
		"x (sleep) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1": `read stat: strconv.Atoi: parsing "x": invalid syntax`,
	} {
		if _, _, err := ParseStat([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

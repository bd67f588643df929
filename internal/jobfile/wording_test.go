package jobfile

import (
	"reflect"
	"testing"

	"github.com/drover-run/drover/fault"
)

func TestAFieldOfAKindThatNoFileCanSayIsAMistakeOfOurs(t *testing.T) {
	var field chan int
	err := page{name: "x.yaml"}.readValue(nil, reflect.ValueOf(&field).Elem(), "pipe")
	if err == nil || err.Error() != `read job file: x.yaml: field "pipe" has an unsupported kind: chan int` || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

"""Calls beside each other: results in the order of the items, none begun after an error, checks left out."""

from __future__ import annotations

import threading
import time

import pytest
import sklearn
from sklearn.tree import DecisionTreeClassifier

from engine.errors import StoreError
from engine.evaluation import threads
from engine.evaluation.threads import in_threads, unchecked


def test_results_keep_the_order_of_the_items():
    first = threading.Event()

    def late_or_early(item):
        if item == 0:  # the first waits for the second
            assert first.wait(20)
        first.set()
        return item * 10

    assert list(in_threads(late_or_early, range(7))) == [0, 10, 20, 30, 40, 50, 60]
    assert list(in_threads(late_or_early, [])) == []


def test_none_begins_after_an_error(monkeypatch):
    monkeypatch.setattr(threads, "THREADS", 1)
    begun = []

    def fails(item):
        begun.append(item)
        if item == 0:
            raise StoreError("told")
        time.sleep(0.1)  # all of them would take half a minute, the error is known at once

    with pytest.raises(StoreError, match="told"):
        list(in_threads(fails, range(300)))
    assert len(begun) < 300


def test_checks_are_left_out_in_each_thread_and_come_back():
    def is_left_out(_):
        found = sklearn.get_config()
        return found["skip_parameter_validation"] and found["assume_finite"]

    assert list(in_threads(is_left_out, range(3))) == [True, True, True]
    with unchecked():
        assert is_left_out(None)
    assert not is_left_out(None)


def test_it_does_without_scikit_learn(monkeypatch):
    monkeypatch.setattr(threads, "find_spec", lambda _: None)
    with unchecked():
        assert not sklearn.get_config()["assume_finite"]


def test_a_tree_guesses_the_same_without_its_checks():
    rows = [[float(i % 7), float(i % 3)] for i in range(50)]
    labels = [int(i % 4 == 0) for i in range(50)]
    tree = DecisionTreeClassifier(max_depth=3, random_state=1).fit(rows, labels)
    asked = tree._validate_X_predict(rows, check_input=True)
    assert (tree.tree_.predict(asked) == tree.predict_proba(rows)).all()

"""Tests of the tool as a function: python3 -m unittest. Haft does not register this file."""

import unittest

from weather import forecast


class Forecast(unittest.TestCase):
    def test_days(self):
        self.assertEqual(forecast("Oslo", 1), ["Oslo, day 1: sun"])

    def test_too_many_days(self):
        with self.assertRaises(ValueError):
            forecast("Oslo", 8)


if __name__ == "__main__":
    unittest.main()

"""Discover the digits 7, 8 and 9, knowing only 0 to 6, at the end of a scikit-learn pipeline."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from newfound import NovelClassDiscovery, hungarian_accuracy


def main() -> float:
    """Fit the pipeline and return the share of new images in the right class."""
    X, digits = load_digits(return_X_y=True)
    X, X_new, digits, digits_new = train_test_split(X, digits, random_state=0)
    hidden = (digits > 6) | (np.random.default_rng(0).random(len(digits)) < 0.5)
    y = np.where(hidden, -1, digits)  # half of the known digits are in the pile too

    pipeline = make_pipeline(StandardScaler(), NovelClassDiscovery(num_novel=3))
    pipeline.fit(X, y)

    accuracy = hungarian_accuracy(pipeline.predict(X_new), digits_new)
    print(f"New images of ten digits, three of which were never labelled: {accuracy:.1%} in the right class")
    return accuracy


if __name__ == "__main__":
    main()
